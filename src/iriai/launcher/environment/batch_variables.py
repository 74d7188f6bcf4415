"""Variables of Slurm and PBS that are known when a task starts.

What is known at submission comes with the job (`iriai.model.batch_variables`); what differs between
tasks is added here. Nothing of it acts upon what the launcher does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache

from iriai.launcher.contract.messages import StartOrder
from iriai.model.batch_variables import BatchSystem, BatchVariables

NODE_FILE = ".nodes"
"""In the task's private directory: what `$PBS_NODEFILE` names."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def packed(values: Iterable[tuple[str, str]]) -> dict[bytes, bytes]:
    """Return variables in the form of the helper, with a colon before each name."""
    return {b":" + name.encode(): value.encode(errors="surrogateescape") for name, value in values}


def add_batch_variables(
    environment: dict[bytes, bytes],
    batch: BatchVariables,
    order: StartOrder,
    tmp: str,
    *,
    is_array: bool,
) -> None:
    """Add the variables of `batch` for one task to `environment`.

    Tasks of an array must differ in what scripts use as a job's id, since they name files by it.
    `tmp` is the task's private directory.
    """
    attempt = order.attempt
    number, index = b"%d" % attempt.number, b"%d" % attempt.index
    if batch.system is BatchSystem.SLURM:
        added = _slurm(number, index, attempt.attempt, is_array=is_array)
        added[b":SLURM_TMPDIR"] = os.fsencode(tmp)
        if order.gpu_ids:
            added[b":SLURM_JOB_GPUS"] = ",".join(map(str, order.gpu_ids)).encode()
    else:
        added = _pbs(number, index, attempt.home.encode(), is_array=is_array)
        added[b":PBS_NODEFILE"] = os.fsencode(f"{tmp}/{NODE_FILE}")
    environment.update(packed(batch.values))
    environment.update(added)


def write_node_file(directory_fd: int, cpus: int, uid: int) -> None:
    """Write the file of `$PBS_NODEFILE`: this machine, once for each CPU.

    `directory_fd` is the task's private directory, which the launcher made and opened; no path is
    followed. Raises OSError if something of that name exists.
    """
    fd = os.open(NODE_FILE, _FLAGS, 0o644, dir_fd=directory_fd)
    try:
        if os.geteuid() == 0:
            os.fchown(fd, uid, -1)
        os.write(fd, (_machine() + b"\n") * cpus)
    finally:
        os.close(fd)


def _slurm(number: bytes, index: bytes, attempt: int, *, is_array: bool) -> dict[bytes, bytes]:
    machine = _machine()
    own = b"%b_%b" % (number, index) if is_array else number
    result = {
        b":SLURM_JOB_ID": own,
        b":SLURM_JOBID": own,
        b":SLURM_JOB_NODELIST": machine,
        b":SLURM_NODELIST": machine,
        b":SLURMD_NODENAME": machine,
    }
    if attempt > 1:
        result[b":SLURM_RESTART_COUNT"] = b"%d" % (attempt - 1)
    if is_array:
        result[b":SLURM_ARRAY_JOB_ID"] = number
        result[b":SLURM_ARRAY_TASK_ID"] = index
    return result


def _pbs(number: bytes, index: bytes, home: bytes, *, is_array: bool) -> dict[bytes, bytes]:
    if not is_array:
        return {b":PBS_JOBID": b"%b.%b" % (number, home)}
    return {
        b":PBS_JOBID": b"%b[%b].%b" % (number, index, home),
        b":PBS_ARRAY_ID": b"%b[].%b" % (number, home),
        b":PBS_ARRAYID": index,
        b":PBS_ARRAY_INDEX": index,
    }


@cache
def _machine() -> bytes:
    return os.uname().nodename.encode()

"""Variables that scripts for Slurm and PBS rely on, as far as they differ between tasks.

A job whose environment says `IRIAI_DIRECTIVES` has them; the rest were set at submission.
"""

from __future__ import annotations

import os
from functools import cache

from iriai.model.ids import AttemptId

DIALECT = b":IRIAI_DIRECTIVES"
_NODE_FILE = ".nodes"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def add_batch_variables(environment: dict[bytes, bytes], attempt: AttemptId, tmp: str) -> None:
    """Add to `environment`, whose names begin with a colon, what its dialect has.

    An array's tasks must differ in what scripts take for a job's id, since they name files by it.
    """
    dialect, _, kind = environment[DIALECT].partition(b"-")
    number, index, is_array = b"%d" % attempt.number, b"%d" % attempt.index, kind == b"array"
    if dialect == b"slurm":
        added = _slurm(number, index, attempt.attempt, is_array=is_array)
        added[b":SLURM_TMPDIR"] = os.fsencode(tmp)
        if b":CUDA_VISIBLE_DEVICES" in environment:
            added[b":SLURM_JOB_GPUS"] = environment[b":CUDA_VISIBLE_DEVICES"]
    elif dialect == b"pbs":
        added = _pbs(number, index, attempt.home.encode(), is_array=is_array)
        added[b":PBS_NODEFILE"] = os.fsencode(f"{tmp}/{_NODE_FILE}")
    else:
        return
    environment.update(added)


def write_node_file(environment: dict[bytes, bytes], cpus: int, uid: int) -> None:
    """Write what `$PBS_NODEFILE` names, where there is one: this machine, once for each CPU."""
    path = environment.get(b":PBS_NODEFILE")
    if path is None or DIALECT not in environment:
        return
    fd = os.open(path, _FLAGS, 0o644)
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

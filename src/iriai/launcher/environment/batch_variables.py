"""Variables of Slurm and PBS that are known when a task starts.

What is known at submission comes with the job (`iriai.model.batch_variables`); what differs between
tasks is added here. Nothing of it acts upon what the launcher does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby

from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.environment.private_files import write_private
from iriai.launcher.environment.rank_variables import seat_number, seats_of, this_machine
from iriai.model.batch_variables import BatchSystem, BatchVariables

NODE_FILE = ".nodes"
"""In the task's private directory: what `$PBS_NODEFILE` names."""


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


def add_seat_variables(
    environment: dict[bytes, bytes], batch: BatchVariables, order: StartOrder, cpus: int
) -> None:
    """Add what a script of several ranks finds, on whichever seat; a rank has `cpus`."""
    seats = seats_of(order)
    ranks = [seat.ranks for seat in seats]
    names = ",".join(seat.address for seat in seats)
    if batch.system is BatchSystem.PBS:
        added = {"PBS_NP": sum(ranks), "PBS_NUM_NODES": len(seats)}
        added |= {"PBS_NUM_PPN": ranks[0]} if len(set(ranks)) == 1 else {}
        added |= {"PBS_NODENUM": seat_number(order)}
        environment.update(packed((name, str(value)) for name, value in added.items()))
        return
    words = {
        "SLURM_CPUS_ON_NODE": str(order.ranks * cpus),
        "SLURM_JOB_CPUS_PER_NODE": _repeated([cpus * each for each in ranks]),
        "SLURM_JOB_NODELIST": names,
        "SLURM_JOB_NUM_NODES": str(len(seats)),
        "SLURM_NNODES": str(len(seats)),
        "SLURM_NODEID": str(seat_number(order)),
        "SLURM_NODELIST": names,
        "SLURM_NPROCS": str(sum(ranks)),
        "SLURM_NTASKS": str(sum(ranks)),
        "SLURM_TASKS_PER_NODE": _repeated(ranks),
    }
    environment.update(packed(words.items()))


def batch_rank_variables(batch: BatchVariables, order: StartOrder, rank: int) -> dict[bytes, bytes]:
    """Return the variables of one rank of a seat of several."""
    own, local = b"%d" % rank, b"%d" % (rank - order.attempt.rank)
    if batch.system is BatchSystem.PBS:
        return {b":PBS_TASKNUM": b"%d" % (rank + 1)}
    return {b":SLURM_PROCID": own, b":SLURM_LOCALID": local}


def _repeated(counts: list[int]) -> str:
    """Return counts as Slurm writes them: `4(x2),3`."""
    groups = ((count, len(list(same))) for count, same in groupby(counts))
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)


def write_node_file(directory_fd: int, order: StartOrder, cpus: int, uid: int) -> None:
    """Write the file of `$PBS_NODEFILE`: each machine once for each rank, of one rank for each CPU.

    `directory_fd` is the task's private directory. Raises OSError if something of that name exists.
    """
    if order.parallel is not None:
        text = "".join(f"{seat.address}\n" * seat.ranks for seat in seats_of(order))
    else:
        text = f"{this_machine()}\n" * cpus
    write_private(directory_fd, NODE_FILE, text.encode(), 0o644, uid)


def _slurm(number: bytes, index: bytes, attempt: int, *, is_array: bool) -> dict[bytes, bytes]:
    machine = this_machine().encode()
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

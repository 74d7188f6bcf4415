"""Environment variables of Slurm and PBS that are known at submission.

The launcher adds the variables that differ between tasks (ids, indices, the machine): see
`iriai.launcher.environment.batch_variables`.
"""

from __future__ import annotations

from collections.abc import Iterable

from iriai.client.directives.option import Surroundings
from iriai.model.batch_variables import VariableName

_ORIGINAL: dict[str, VariableName] = {
    "HOME": "PBS_O_HOME",
    "PATH": "PBS_O_PATH",
    "LOGNAME": "PBS_O_LOGNAME",
    "SHELL": "PBS_O_SHELL",
    "LANG": "PBS_O_LANG",
    "MAIL": "PBS_O_MAIL",
    "TZ": "PBS_O_TZ",
}
"""Variables of the submitter's environment that PBS passes on under another name."""


def slurm_variables(
    around: Surroundings,
    name: str,
    cpus: int,
    tasks: int | None,
    gpus: int,
    memory_bytes: int,
    array: str | None,
) -> dict[VariableName, str]:
    """Return the variables of the job `name` with these sizes; `array` is its ranges."""
    count = tasks or 1
    result: dict[VariableName, str] = {
        "SLURM_SUBMIT_DIR": around.directory,
        "SLURM_SUBMIT_HOST": around.host,
        "SLURM_CLUSTER_NAME": "iriai",
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_USER": around.user,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_NTASKS": str(count),
        "SLURM_NPROCS": str(count),
        "SLURM_TASKS_PER_NODE": str(count),
        "SLURM_CPUS_PER_TASK": str(max(cpus // count, 1)),
        "SLURM_CPUS_ON_NODE": str(cpus),
        "SLURM_JOB_CPUS_PER_NODE": str(cpus),
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    if gpus:
        result |= {"SLURM_GPUS": str(gpus), "SLURM_GPUS_ON_NODE": str(gpus)}
    if memory_bytes:
        result["SLURM_MEM_PER_NODE"] = str(memory_bytes >> 20)
    if array:
        result |= _array_variables(array)
    return result


def _array_variables(array: str) -> dict[VariableName, str]:
    """Return the variables of the array; none if its ranges are malformed."""
    try:
        ranges = list(_ranges(array.partition("%")[0].split(",")))
        sizes = [(last - first) // step + 1 for first, last, step in ranges]
    except (ValueError, ZeroDivisionError):
        return {}
    return {
        "SLURM_ARRAY_TASK_COUNT": str(sum(sizes)),
        "SLURM_ARRAY_TASK_MIN": str(min(first for first, _, _ in ranges)),
        "SLURM_ARRAY_TASK_MAX": str(
            max(
                first + (size - 1) * step
                for (first, _, step), size in zip(ranges, sizes, strict=True)
            )
        ),
        "SLURM_ARRAY_TASK_STEP": str(ranges[0][2]),
    }


def _ranges(parts: Iterable[str]) -> Iterable[tuple[int, int, int]]:
    for part in parts:
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        yield int(first), int(last or first), int(step or 1)


def pbs_variables(
    around: Surroundings,
    name: str,
    cpus: int,
    gpus: int,
    queue: str | None,
) -> dict[VariableName, str]:
    """Return the variables of a PBS job; `queue` is the queue that the script names."""
    result: dict[VariableName, str] = {
        "PBS_JOBNAME": name,
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_O_WORKDIR": around.directory,
        "PBS_O_HOST": around.host,
        "PBS_O_QUEUE": queue or "iriai",
        "PBS_QUEUE": queue or "iriai",
        "PBS_NP": str(cpus),
        "PBS_NUM_PPN": str(cpus),
        "PBS_NUM_NODES": "1",
        "PBS_NODENUM": "0",
        "PBS_TASKNUM": "1",
        "NCPUS": str(cpus),
    }
    if gpus:
        result["PBS_NGPUS"] = str(gpus)
    for given, name_there in _ORIGINAL.items():
        if given in around.environment:
            result[name_there] = around.environment[given]
    return result

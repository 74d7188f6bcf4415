"""Environment variables that scripts for Slurm and PBS rely on, as far as submission knows them.

What differs between tasks (ids, indices, the machine) the launcher adds, where `DIALECT_VARIABLE`
says so: see `iriai.launcher.batch_variables`.
"""

from __future__ import annotations

from collections.abc import Iterable

from iriai.client.directives.option import Surroundings

DIALECT_VARIABLE = "IRIAI_DIRECTIVES"
"""`slurm` or `pbs`, with `-array` where the job is an array."""
_ORIGINAL = ("HOME", "PATH", "LOGNAME", "SHELL", "LANG", "MAIL", "TZ")
"""What PBS keeps of the submitter's environment, with PBS_O_ in front."""


def slurm_variables(
    around: Surroundings,
    name: str,
    cpus: int,
    tasks: int | None,
    gpus: int,
    memory_bytes: int,
    array: str | None,
) -> dict[str, str]:
    """For the job `name` of these sizes; `array` is its ranges."""
    count = tasks or 1
    result = {
        DIALECT_VARIABLE: "slurm-array" if array else "slurm",
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


def _array_variables(array: str) -> dict[str, str]:
    """Of the whole array; nothing where its ranges cannot be read, which is told elsewhere."""
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
    array: str | None,
) -> dict[str, str]:
    """As `slurm_variables`, for PBS; `queue` is the one that the script names."""
    result = {
        DIALECT_VARIABLE: "pbs-array" if array else "pbs",
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
    for name in _ORIGINAL:
        if name in around.environment:
            result[f"PBS_O_{name}"] = around.environment[name]
    return result

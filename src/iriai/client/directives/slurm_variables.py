"""Variables of an sbatch script that follow from its array, or from its tasks on one machine."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.batch_variables import VariableName


def on_one_machine(tasks: int, cpus: int) -> dict[VariableName, str]:
    """Return the variables of `tasks` that are one rank; the launcher adds those of several."""
    return {
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_NTASKS": str(tasks),
        "SLURM_NPROCS": str(tasks),
        "SLURM_TASKS_PER_NODE": str(tasks),
        "SLURM_CPUS_ON_NODE": str(cpus),
        "SLURM_JOB_CPUS_PER_NODE": str(cpus),
    }


def array_variables(array: str) -> dict[VariableName, str]:
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

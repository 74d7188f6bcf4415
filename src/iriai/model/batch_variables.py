"""Variables of Slurm and PBS, and names of variables that iriai sets.

A job contains the values that are known at submission (`BatchVariables`); the launcher adds those
that differ between tasks (`iriai.launcher.environment.batch_variables`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal, get_args

import msgspec

RESERVED = ("IRIAI_", "PBS_", "SLURM_")
"""Prefixes of names that only iriai sets. They are dropped from the environment of a submission:
they belong to a job of another system, to the submitting task, or imitate iriai's own."""
VALUE_LENGTH_MAX = 8192
"""Characters of one value: two of the longest paths, or a PATH of a hundred directories."""
_NAMED_MAX = 5
"""Names in a warning; the rest is counted."""

NoticeVariable = Literal[
    "IRIAI_JOB_NAME",
    "IRIAI_JOB_STATE",
    "IRIAI_JOB_CAUSES",
    "IRIAI_JOB_EXIT_CODE",
    "IRIAI_JOB_SIGNAL",
    "IRIAI_JOB_MESSAGE",
    "IRIAI_JOB_ID",
    "IRIAI_RESERVATION_ID",
    "IRIAI_RESERVATION_NEWS",
    "IRIAI_RESERVATION_START",
    "IRIAI_RESERVATION_END",
    "IRIAI_RESERVATION_NODES",
    "IRIAI_RESERVATION_MISSING",
    "IRIAI_RESERVATION_MESSAGE",
]
"""Variables of a notice about a job or a reservation, beside those of each task."""

VariableName = Literal[
    "NCPUS",
    "PBS_ENVIRONMENT",
    "PBS_JOBNAME",
    "PBS_NGPUS",
    "PBS_NODENUM",
    "PBS_NP",
    "PBS_NUM_NODES",
    "PBS_NUM_PPN",
    "PBS_O_HOME",
    "PBS_O_HOST",
    "PBS_O_LANG",
    "PBS_O_LOGNAME",
    "PBS_O_MAIL",
    "PBS_O_PATH",
    "PBS_O_QUEUE",
    "PBS_O_SHELL",
    "PBS_O_TZ",
    "PBS_O_WORKDIR",
    "PBS_QUEUE",
    "PBS_TASKNUM",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_STEP",
    "SLURM_CLUSTER_NAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_USER",
    "SLURM_LOCALID",
    "SLURM_MEM_PER_NODE",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
    "SLURM_TASKS_PER_NODE",
]
"""The name of a variable that a submission may set; the launcher sets others, or they are refused.
"""
NAMES_MAX = 64
"""Limit of variables of one job; there are fewer names."""

Value = Annotated[str, msgspec.Meta(max_length=VALUE_LENGTH_MAX)]
Values = Annotated[tuple[tuple[VariableName, Value], ...], msgspec.Meta(max_length=NAMES_MAX)]


class BatchSystem(StrEnum):
    """The batch system that a script was written for."""

    SLURM = "slurm"
    PBS = "pbs"


class BatchVariables(msgspec.Struct, frozen=True, array_like=True):
    """The variables of another system that a script expects."""

    system: BatchSystem
    values: Values = ()


def is_reserved(name: str) -> bool:
    """Return whether only iriai may set the variable `name`."""
    return name.startswith(RESERVED)


def dropped_warning(names: Iterable[str]) -> str:
    """Return the warning about the dropped variables `names`; empty: there is none.

    Variables that every task has are not mentioned: a task passes them on with each submission.
    """
    given = set(names)
    is_nested = "IRIAI_JOB_ID" in given
    told = sorted(
        name
        for name in given
        if not (name in _OF_EACH_TASK or (is_nested and not name.startswith("IRIAI_")))
    )
    if not told:
        return ""
    listed = ", ".join(name[:64] for name in told[:_NAMED_MAX])
    more = f" and {len(told) - _NAMED_MAX} more" if len(told) > _NAMED_MAX else ""
    return (
        f"not passed on: {listed}{more}; names that begin with IRIAI_, PBS_ or SLURM_ are set for"
        " each task, so choose another name"
    )


_OF_EACH_TASK = frozenset(get_args(NoticeVariable)) | {
    f"IRIAI_{name}"
    for name in ("ATTEMPT", "CPUS", "JOB_ID", "MARK", "RANK", "RANKS", "STATE", "TASK_ID")
}

"""Reasons in the home itself that keep a job's waiting tasks from starting."""

from __future__ import annotations

from collections.abc import Mapping

from iriai.home.active_task import ActiveTask
from iriai.home.job import JobState
from iriai.model.ids import JobId, TaskId
from iriai.model.job import Dependency, JobSpec
from iriai.model.reason import Reason, Rule
from iriai.model.units import format_size

EXPLAINED_MAX = 10
"""Dependencies that are named of those that a job waits for: more than a person reads."""


def explain_here(home: str, job: JobState, jobs: Mapping[int, JobState]) -> list[Reason]:
    """Return the reasons in the home that hold the job back; the one to remove first is first."""
    reasons = []
    if job.held:
        release = f"iriai release {JobId(home, job.number)}"
        if job.is_operators_hold:
            release += ", by an operator"
        had = f"the job is held by {job.held_by}" if " " in job.held_by else "the job is held"
        reasons.append(Reason(Rule.HELD, release, had))
    reasons += explain_open(job.open_after, jobs)
    if job.waiting and job.room <= 0:
        throttle = f"at most {job.spec.throttle} at once, and {job.active} run"
        reasons.append(Reason(Rule.ARRAY_THROTTLE, "one of its tasks to end", throttle))
    return reasons


def waits_for_place(machine: str) -> Reason:
    """Return what an attempt waits for whose claim was granted ahead."""
    needed = "the tasks there before it to end"
    return Reason(Rule.MACHINE_BUSY, needed, f"it was prefetched by {machine}", machine)


def suspended(task_id: TaskId, task: ActiveTask, spec: JobSpec) -> Reason | None:
    """Return why a task that has started does not run at present; None: it does."""
    if task.suspension is None or not task.suspension.reasons:
        return None
    if task.suspension.is_resuming:
        needed = "its cpus to be free again"
    elif task.suspension.is_wanted:
        needed = f"iriai unsuspend {task_id}"
    else:
        needed = "these reasons to end"
    had = task.suspension.text
    ranks = 1 if task.parallel is None else sum(place.ranks for place in task.parallel.places)
    kept_bytes = spec.resources.memory_bytes * ranks
    had += f"; it keeps {format_size(kept_bytes)} of memory" if kept_bytes else ""
    return Reason(Rule.SUSPENDED, needed, had, task.machine)


def explain_open(open_after: tuple[Dependency, ...], jobs: Mapping[int, JobState]) -> list[Reason]:
    """Return reasons for the first dependencies that are not met."""
    return [_open(each, jobs.get(each.number)) for each in open_after[:EXPLAINED_MAX]]


def _open(dependency: Dependency, on: JobState | None) -> Reason:
    """Return what a dependency that is not met waits for."""
    if on is None:
        had = "it has just ended"
    elif dependency.task is not None:
        had = f"it is {on.task_state(dependency.task)}"
    else:
        ended = on.total - on.waiting - on.active
        had = f"waiting tasks: {on.waiting}, running: {on.active}, ended: {ended}"
    return Reason(Rule.DEPENDENCY, dependency.needed, had)

"""What users of a home have suspended: recorded, and sent to the machines (docs/spec/012)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iriai.home.active_task import ActiveTask
from iriai.home.completion import EventLog
from iriai.home.job import JobState
from iriai.home.node_sessions import NodeSessions
from iriai.model.ids import AttemptId, JobId, TaskId
from iriai.model.problem import Refused
from iriai.model.records import ReasonsTold, SeatReasons, UserSuspended
from iriai.model.state import TaskState
from iriai.protocol.messages.suspension import Suspended


class HomeSuspensions:
    """What users of a home have suspended: recorded, and sent to the machines."""

    def __init__(
        self, home: str, jobs: Mapping[int, JobState], log: EventLog, nodes: NodeSessions
    ) -> None:
        self._home = home
        self._jobs = jobs
        self._log = log
        self._nodes = nodes

    def want(self, number: int, indices: tuple[int, ...], by: str, *, is_wanted: bool) -> int:
        """Suspend running tasks of a job, or let them go on: `indices`, or all if it is empty.

        Return how many there are. Raises `Refused` if none of them runs, or none is suspended.
        """
        job = self._jobs[number]
        running = [
            (index, task)
            for index, task in _chosen(job, indices)
            if task.state is not TaskState.QUEUED and not task.stopping
        ]
        if not running or not (is_wanted or any(task.suspension for _, task in running)):
            raise self._refusal(number, indices, is_wanted=is_wanted)
        changed = [(index, task) for index, task in running if _is_wanted(task) is not is_wanted]
        if changed:
            tasks = tuple((index, task.attempt) for index, task in changed)
            self._log.apply(job, UserSuspended(tasks, by, is_wanted))
        for index, task in changed:
            self._nodes.suspend(AttemptId(self._home, number, index, task.attempt), task)
        return len(changed)

    def _refusal(self, number: int, indices: tuple[int, ...], *, is_wanted: bool) -> Refused:
        job = JobId(self._home, number)
        named = str(TaskId(self._home, number, indices[0])) if len(indices) == 1 else str(job)
        if is_wanted:
            what, hint = "runs", f"'iriai hold {job}' keeps waiting tasks from starting"
        else:
            what, hint = "is suspended", f"see 'iriai show {job}'"
        has = "does not run" if is_wanted else "is not suspended"
        words = f"{named} {has}" if named != str(job) else f"{job} has no task that {what}"
        return Refused("not-running", words, hint)

    def told(self, job: JobState, message: Suspended) -> None:
        """Record what the machine of a seat says, unless it is known."""
        _, _, index, attempt, rank, _ = message.attempt
        task = job.tasks[index]
        seats = {} if task.suspension is None else task.suspension.seats
        known = seats.get(rank, ((), False))
        moved_to = None if rank else message.moved_to  # the first seat says it for all
        has_moved = moved_to is not None and moved_to != task.moved_to
        if has_moved or known != (message.reasons, message.is_resuming):
            told = (message.reasons, message.is_resuming, moved_to if has_moved else None)
            seat = SeatReasons(index, attempt, rank, *told, message.seen)
            self._log.apply(job, ReasonsTold((seat,)))


def _chosen(job: JobState, indices: tuple[int, ...]) -> Iterator[tuple[int, ActiveTask]]:
    for index in indices or tuple(job.tasks):
        task = job.tasks.get(index)
        if task is not None:
            yield index, task


def _is_wanted(task: ActiveTask) -> bool:
    return task.suspension is not None and task.suspension.is_wanted

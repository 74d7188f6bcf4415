"""Users who wait for jobs and tasks to finish: how much they wait for, and when it is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iriai.home.core import Home
from iriai.home.job import JobState
from iriai.jobs.selection import SelectedJobs
from iriai.model.problem import Refused
from iriai.model.state import EndCause, TaskState
from iriai.policy.service.allowances import Allowance
from iriai.wire.requests import Progress

ALL_WAITS_MAX = 5_000_000
"""Jobs and tasks that all clients wait for at once: what they take is some MB, but looking at all
of them takes a second."""
REQUEST_WEIGHT = 250
"""What a request to wait takes beside them: each is looked at when a task of its job ends."""
TASKS_AT_ONCE = 4096
"""Tasks that are looked at before others may be served: a millisecond."""


class AwaitedTasks:
    """A selection that is waited for, and how many of its tasks are known to be finished."""

    __slots__ = ("_finished", "item")

    def __init__(self, item: SelectedJobs) -> None:
        self.item = item
        self._finished = 0

    def is_open(self, job: JobState | None, most: int | None = None) -> bool:
        """Return whether a task has not finished; True after `most` tasks were checked."""
        if job is None:
            return False
        indices, finished = self.item.indices, self._finished
        if not indices:
            return True
        end = len(indices) if most is None else min(len(indices), finished + most)
        while finished < end and job.task_state(indices[finished]) is TaskState.FINISHED:
            finished += 1
        self._finished = finished
        return finished < len(indices)


class OpenWait:
    """What one request waits for."""

    def __init__(self, user: str, selected: list[SelectedJobs]) -> None:
        self.user = user
        self.weight = REQUEST_WEIGHT + sum(len(item.indices) or 1 for item in selected)
        self.awaited = [AwaitedTasks(item) for item in selected]
        self.open: dict[int, list[AwaitedTasks]] = {}
        """What has not finished yet, by job number."""


class JobWaits:
    """All that clients of one home wait for."""

    def __init__(self, home: Home, user_max: int) -> None:
        """`user_max` jobs and tasks may be waited for by one user at once."""
        self.per_user = Allowance("waits_per_user", "jobs and tasks that are waited for", user_max)
        self._home = home
        self.by_job: dict[int, dict[OpenWait, None]] = {}
        """The waits for each job, or for tasks of it."""
        self._weight = 0

    def check_room(self, weight: int, user: str | None) -> None:
        """Raise `Refused` where so much more is too much; an operator has no `user`'s limit."""
        if user is not None:
            self.per_user.check(user, weight)
        if self._weight + weight > ALL_WAITS_MAX:
            raise Refused(
                "too-many-waits",
                f"that is more than the {ALL_WAITS_MAX} jobs and tasks that all connections "
                f"together may wait for ({self._weight} are waited for already)",
                "name whole jobs instead of their tasks, or wait for some after the others",
            )

    def looked_at(self, wait: OpenWait) -> Iterator[SelectedJobs | None]:
        """Count the finished tasks of a wait; yield what has finished.

        Yields None where other requests may be served.
        """
        for each in wait.awaited:
            job = self._job(each.item)
            for _ in range(0, len(each.item.indices), TASKS_AT_ONCE):
                yield None
                each.is_open(job, TASKS_AT_ONCE)
            if not each.is_open(self._job(each.item)):
                yield each.item
            yield None

    def enter(self, wait: OpenWait) -> None:
        """Note what has not finished of a wait that was looked at."""
        for each in wait.awaited:
            if each.is_open(self._job(each.item)):
                wait.open.setdefault(each.item.job.number, []).append(each)
        for number in wait.open:
            self.by_job.setdefault(number, {})[wait] = None
        self._weight += wait.weight
        self.per_user.add(wait.user, wait.weight)

    def leave(self, wait: OpenWait) -> None:
        """Forget a wait that is over, or whose client is gone."""
        for number in list(wait.open):
            self._close(wait, number)
        self._weight -= wait.weight
        self.per_user.give_back(wait.user, wait.weight)

    def job_finished(self, number: int) -> list[OpenWait]:
        """Take a job out of all waits, its end being durable; return those that are over."""
        return [wait for wait in list(self.by_job.get(number, ())) if self._close(wait, number)]

    def without_open_tasks(self, number: int) -> list[OpenWait]:
        """Return the waits whose tasks of a job have finished; their ends may not be durable."""
        job = self._home.jobs.get(number)
        waits = self.by_job.get(number, {}) if job is not None else {}
        return [wait for wait in waits if not any(e.is_open(job) for e in wait.open[number])]

    def tasks_finished(self, wait: OpenWait, number: int) -> bool:
        """Take a job out of a wait, unless it was before; return whether the wait is over now."""
        return number in wait.open and self._close(wait, number)

    def _close(self, wait: OpenWait, number: int) -> bool:
        del wait.open[number]
        waits = self.by_job[number]
        del waits[wait]
        if not waits:
            del self.by_job[number]
        return not wait.open

    def _job(self, item: SelectedJobs) -> JobState | None:
        return self._home.jobs.get(item.job.number)

    def progress(self, wait: OpenWait) -> Iterator[Progress]:
        """Yield how far what is waited for has come so far as it was counted, the whole last."""
        told = [0, 0, 0, 0]
        for each in wait.awaited:
            for counts in self._counts(each.item):
                told = [sum(both) for both in zip(told, counts, strict=True)]
                yield Progress(*told)

    def _counts(self, item: SelectedJobs) -> Iterator[tuple[int, int, int, int]]:
        """Yield the tasks that wait, run, succeeded and failed, some at a time."""
        job = self._job(item)
        if job is not None and item.indices:
            for first in range(0, len(item.indices), TASKS_AT_ONCE):
                yield (*_task_counts(job, item.indices[first : first + TASKS_AT_ONCE]), 0)
        elif job is not None:
            done = job.counts.get(EndCause.COMPLETED, 0)
            yield job.waiting, job.active, done, sum(job.counts.values()) - done
        elif finished := self._home.outcomes.get(item.job.number):
            yield 0, 0, finished.completed, finished.others


def _task_counts(job: JobState, indices: Sequence[int]) -> tuple[int, int, int]:
    states = [job.task_state(index) for index in indices]
    waiting = sum(state in (TaskState.QUEUED, TaskState.HELD) for state in states)
    finished = sum(state is TaskState.FINISHED for state in states)
    return waiting, len(states) - waiting - finished, finished

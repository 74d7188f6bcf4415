"""Clients that wait for jobs and tasks to finish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending, checkpoint
from iriai.daemon.loop.routes import JobStored
from iriai.daemon.requests.jobs.selection import SelectedJobs
from iriai.daemon.server.connections import ClientSession, RequestContext
from iriai.home.job import JobState
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.state import EndCause, TaskState
from iriai.policy.service.connection_limits import Allowance
from iriai.protocol.messages.effects import JobCompleted
from iriai.wire.requests import Outcome as WireOutcome
from iriai.wire.requests import Progress, Waited

PROGRESS_S = 0.25
"""Between two notices of progress: smooth to the eye, nothing beside the work."""

ALL_WAITS_MAX = 5_000_000
"""Jobs and tasks that all clients wait for at once: what they take is some MB, but looking at all
of them takes a second."""
REQUEST_WEIGHT = 250
"""What a request to wait takes beside them: each is looked at when a task of its job ends."""
TASKS_AT_ONCE = 4096
"""Tasks that are looked at before others may be served: a millisecond."""

FindOutcome = Callable[[SelectedJobs], WireOutcome]
"""Returns the outcome of a finished selection; raises `NotFound`."""


class _Open:
    """A selection that a client waits for, and how many of its tasks are known to be finished."""

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


@dataclass(slots=True, eq=False)
class _Waiter:
    asked: RequestContext
    selected: list[SelectedJobs]
    open: dict[int, list[_Open]]
    """What has not finished yet, by job number."""
    progress: bool
    weight: int
    """Of `selected`; see `JobWaiters.gather`."""
    news: Pending[None] = field(default_factory=Pending)
    """Resolved with its end, or when its progress is to be told."""


class JobWaiters:
    """Clients that wait for jobs and tasks to finish."""

    def __init__(self, engine: Engine, find_outcome: FindOutcome, user_max: int) -> None:
        """`user_max` jobs and tasks may be waited for by one user at once."""
        self.per_user = Allowance("waits_per_user", "jobs and tasks that are waited for", user_max)
        engine.routes.take(JobCompleted, self._job_finished)
        engine.routes.take(JobStored, self._job_changed)
        self._engine = engine
        self._find_outcome = find_outcome
        self._by_job: dict[int, dict[_Waiter, None]] = {}
        self._clients: dict[ClientSession, dict[_Waiter, None]] = {}
        """The waiters of each connection that has waited, until it closes."""
        self._weight = 0
        self._watched: dict[_Waiter, None] = {}
        """Waiters that are sent progress."""
        self._is_ticking = False

    async def gather(
        self, asked: RequestContext, selections: Iterable[Iterator[SelectedJobs | None]]
    ) -> list[SelectedJobs]:
        """Return all selections; raise `Refused` once they exceed what may be waited for."""
        gathered: list[SelectedJobs] = []
        weight = REQUEST_WEIGHT
        for selection in selections:
            for item in selection:
                await checkpoint()
                if item is None:
                    continue
                gathered.append(item)
                weight += len(item.indices) or 1
                if not asked.caller.operator:
                    self.per_user.check(asked.caller.person.name, weight)
                if self._weight + weight > ALL_WAITS_MAX:
                    raise _too_many(self._weight)
        return gathered

    async def finished(
        self, asked: RequestContext, selected: list[SelectedJobs], *, progress: bool
    ) -> Waited:
        """Return when all of `selected` have finished; raise `NotFound` for unknown ones."""
        weight = REQUEST_WEIGHT + sum(len(item.indices) or 1 for item in selected)
        waiter = _Waiter(asked, selected, {}, progress, weight)
        looked_at = [_Open(item) for item in selected]
        await self._resolve(looked_at)
        for each in looked_at:  # at one moment: nothing may finish in between
            if each.is_open(self._job(each.item)):
                waiter.open.setdefault(each.item.job.number, []).append(each)
        if not waiter.open:
            await self._engine.written()
        elif asked.connection.is_gone:
            return Waited(())
        else:
            await self._until_over(waiter)
        await checkpoint()
        if progress:
            asked.notice(await self._progress(waiter))
        outcomes = []
        for item in selected:
            outcomes.append(self._find_outcome(item))
            await checkpoint()
        return Waited(tuple(outcomes))

    async def _until_over(self, waiter: _Waiter) -> None:
        """Wait for the end of what is open, and tell the progress meanwhile."""
        for number in waiter.open:
            self._by_job.setdefault(number, {})[waiter] = None
        self._enter(waiter)
        while waiter.open:
            if waiter.progress:
                self._watched[waiter] = None
                self._tick_later()
            await waiter.news
            waiter.news = Pending()
            if waiter.open:
                progress = await self._progress(waiter)
                if waiter.open:
                    waiter.asked.notice(progress)

    async def _resolve(self, looked_at: list[_Open]) -> None:
        """Count the finished tasks of each selection; raise `NotFound`."""
        for each in looked_at:
            job = self._job(each.item)
            for _ in range(0, len(each.item.indices), TASKS_AT_ONCE):
                await checkpoint()
                each.is_open(job, TASKS_AT_ONCE)
            if not each.is_open(self._job(each.item)):
                self._find_outcome(each.item)
            await checkpoint()

    def _job(self, item: SelectedJobs) -> JobState | None:
        return self._engine.machine.home.jobs.get(item.job.number)

    def _job_finished(self, completed: JobCompleted) -> None:
        """Answer the clients that wait for a job whose end is durable."""
        number = completed.number
        for waiter in list(self._by_job.get(number, ())):
            self._close(waiter, number)

    def _job_changed(self, changed: JobStored) -> None:
        """Answer the clients that wait for tasks of a job, once the tasks' ends are durable.

        The state of the home may be newer than the durable one, so the answer follows a turn
        later. Clients that wait for the whole job are answered by `_job_finished`.
        """
        number = changed.number
        job = self._engine.machine.home.jobs.get(number)
        if job is None:
            return
        for waiter in list(self._by_job.get(number, ())):
            if not any(each.is_open(job) for each in waiter.open[number]):
                self._engine.request(partial(self._close_when_durable, waiter, number))

    def _close_when_durable(self, waiter: _Waiter, number: int, _now: Instant) -> None:
        self._engine.after_this_turn(lambda: self._close(waiter, number))

    def _close(self, waiter: _Waiter, number: int) -> None:
        if waiter not in self._by_job.get(number, ()):
            return  # it was told by another way, or is gone
        waiter.open.pop(number, None)
        waiters = self._by_job[number]
        waiters.pop(waiter, None)
        if not waiters:
            del self._by_job[number]
        if not waiter.open:
            self._watched.pop(waiter, None)
            self._leave(waiter)
            waiter.news.resolve(None)

    # --- clients ---------------------------------------------------------------------------------

    def _enter(self, waiter: _Waiter) -> None:
        connection = waiter.asked.connection
        waiters = self._clients.get(connection)
        if waiters is None:
            waiters = self._clients[connection] = {}
            connection.on_close.append(lambda: self._disconnected(connection))
        waiters[waiter] = None
        self._weigh(waiter, 1)

    def _leave(self, waiter: _Waiter) -> None:
        """Remove a waiter of a client that stays connected."""
        del self._clients[waiter.asked.connection][waiter]
        self._weigh(waiter, -1)

    def _weigh(self, waiter: _Waiter, sign: int) -> None:
        self._weight += sign * waiter.weight
        change = self.per_user.add if sign > 0 else self.per_user.give_back
        change(waiter.asked.caller.person.name, waiter.weight)

    def _disconnected(self, connection: ClientSession) -> None:
        """Remove all waiters of a closed connection."""
        for waiter in self._clients.pop(connection):
            waiter.asked.abandon()
            self._weigh(waiter, -1)
            self._watched.pop(waiter, None)
            for number in waiter.open:
                waiters = self._by_job[number]
                del waiters[waiter]
                if not waiters:
                    del self._by_job[number]

    # --- progress --------------------------------------------------------------------------------

    def _tick_later(self) -> None:
        if not self._is_ticking and self._watched:
            self._is_ticking = True
            self._engine.later(PROGRESS_S, self._tick)

    def _tick(self) -> None:
        self._is_ticking = False
        watched, self._watched = self._watched, {}
        for waiter in watched:
            waiter.news.resolve(None)

    async def _progress(self, waiter: _Waiter) -> Progress:
        waiting = active = succeeded = failed = 0
        for item in waiter.selected:
            await checkpoint()
            job = self._job(item)
            if job is not None and not item.indices:
                done = job.counts.get(EndCause.COMPLETED, 0)
                waiting += job.waiting
                active += job.active
                succeeded += done
                failed += sum(job.counts.values()) - done
            elif job is not None:
                for first in range(0, len(item.indices), TASKS_AT_ONCE):
                    counts = _task_progress(job, item.indices[first : first + TASKS_AT_ONCE])
                    waiting, active = waiting + counts[0], active + counts[1]
                    succeeded += counts[2]
                    await checkpoint()
            elif finished := self._engine.machine.home.outcomes.get(item.job.number):
                succeeded += finished.completed
                failed += finished.others
        return Progress(waiting, active, succeeded, failed)


def _too_many(held: int) -> Refused:
    return Refused(
        "too-many-waits",
        f"that is more than the {ALL_WAITS_MAX} jobs and tasks that all connections together "
        f"may wait for ({held} are waited for already)",
        "name whole jobs instead of their tasks, or wait for some after the others",
    )


def _task_progress(job: JobState, indices: Sequence[int]) -> tuple[int, int, int]:
    waiting = active = 0
    for index in indices:
        state = job.task_state(index)
        waiting += state in (TaskState.QUEUED, TaskState.HELD)
        active += state not in (TaskState.QUEUED, TaskState.HELD, TaskState.FINISHED)
    return waiting, active, len(indices) - waiting - active

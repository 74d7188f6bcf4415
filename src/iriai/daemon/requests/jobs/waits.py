"""Clients that wait for jobs and tasks to finish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending, checkpoint
from iriai.daemon.server.connections import RequestContext
from iriai.jobs.selection import SelectedJobs
from iriai.jobs.waits import REQUEST_WEIGHT, JobWaits, OpenWait
from iriai.model.instant import Instant
from iriai.wire.requests import Outcome, Progress, Waited

PROGRESS_S = 0.25
"""Between two notices of progress: smooth to the eye, nothing beside the work."""


class JobWaiters:
    """Clients that wait for jobs and tasks to finish."""

    def __init__(
        self, engine: Engine, find_outcome: Callable[[SelectedJobs], Outcome], user_max: int
    ) -> None:
        """`find_outcome` raises `NotFound`; `user_max` is as for `JobWaits`."""
        self._engine = engine
        self._find_outcome = find_outcome
        self._waits = JobWaits(engine.machine.home, user_max)
        self.per_user = self._waits.per_user
        self.awaited = self._waits.by_job
        """The jobs that somebody waits for, or for tasks of which."""
        self._news: dict[OpenWait, Pending[None]] = {}
        """Resolved with the end of a wait, or when its progress is to be told."""
        self._watched: dict[OpenWait, None] = {}
        """Waits whose progress is to be told next."""
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
                if item is not None:
                    gathered.append(item)
                    weight += len(item.indices) or 1
                    self._waits.check_room(weight, asked.caller.own)
        return gathered

    async def finished(
        self, asked: RequestContext, selected: list[SelectedJobs], *, progress: bool
    ) -> Waited:
        """Return when all of `selected` have finished; raise `NotFound` for unknown ones."""
        wait = OpenWait(asked.caller.person.name, selected)
        for item in self._waits.looked_at(wait):
            if item is not None:
                self._find_outcome(item)
            await checkpoint()
        connection, leave = asked.connection, asked.abandon
        self._waits.enter(wait)
        self._engine.clients_waiting += 1
        connection.on_close.append(leave)
        try:
            if not wait.open:
                await self._engine.written()
            elif connection.is_gone:
                return Waited(())
            else:
                await self._until_over(asked, wait, progress=progress)
        finally:
            self._waits.leave(wait)
            self._engine.clients_waiting -= 1
            self._watched.pop(wait, None)
            self._news.pop(wait, None)
            if not connection.is_gone:
                connection.on_close.remove(leave)
        if progress:
            asked.notice(await self._progress(wait))
        outcomes = [self._find_outcome(each) for each in selected[:1]]  # one is answered at once
        for item in selected[1:]:
            await checkpoint()
            outcomes.append(self._find_outcome(item))
        return Waited(tuple(outcomes))

    async def _until_over(self, asked: RequestContext, wait: OpenWait, *, progress: bool) -> None:
        """Wait for the end of what is open, and tell the progress meanwhile."""
        while wait.open:
            news = self._news[wait] = Pending(is_immediate=True)
            if progress:
                self._watched[wait] = None
                if not self._is_ticking:
                    self._is_ticking = True
                    self._engine.later(PROGRESS_S, self._tick)
            await news
            if wait.open:
                told = await self._progress(wait)
                if wait.open:
                    asked.notice(told)

    async def _progress(self, wait: OpenWait) -> Progress:
        told = Progress(0, 0, 0, 0)
        for so_far in self._waits.progress(wait):
            told = so_far
            await checkpoint()
        return told

    def _tick(self) -> None:
        self._is_ticking = False
        watched, self._watched = self._watched, {}
        for wait in watched:
            self._news[wait].resolve(None)

    def job_finished(self, number: int) -> None:
        """Answer the clients that wait for a job whose end is durable."""
        for wait in self._waits.job_finished(number):
            self._tell(wait)

    def job_changed(self, number: int) -> None:
        """Answer the clients that wait for tasks of a job, once the tasks' ends are durable.

        The state of the home may be newer than the durable one, so the answer follows a turn
        later. Clients that wait for the whole job are answered by `job_finished`.
        """
        for wait in self._waits.without_open_tasks(number):
            self._engine.request(partial(self._close_when_durable, wait, number))

    def _close_when_durable(self, wait: OpenWait, number: int, _now: Instant) -> None:
        self._engine.after_this_turn(lambda: self._close(wait, number))

    def _close(self, wait: OpenWait, number: int) -> None:
        if self._waits.tasks_finished(wait, number):
            self._tell(wait)

    def _tell(self, wait: OpenWait) -> None:
        if wait in self._news:
            self._news[wait].resolve(None)

"""Those who wait for jobs and tasks to finish."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from iriai.daemon.clients import Asked, Connection
from iriai.daemon.engine import Engine
from iriai.daemon.selection import Selected
from iriai.home.job import JobState, Outcome
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.state import EndCause, TaskState
from iriai.wire.requests import Outcome as WireOutcome
from iriai.wire.requests import Progress, Waited

PROGRESS_S = 0.25
"""Between two notices of progress: smooth to the eye, nothing beside the work."""

CLIENT_WAITS_MAX = 1_500_000
"""Jobs and tasks that one client waits for at once: the largest range, and half as many beside."""
ALL_WAITS_MAX = 5_000_000
"""The same of all clients: some 200 MB."""
REQUEST_WEIGHT = 25
"""What a request to wait takes in memory beside them: as much as so many tasks."""

FindOutcome = Callable[[Selected], WireOutcome]
"""How something that has finished ended; raises `NotFound`."""


@dataclass(slots=True, eq=False)
class _Waiter:
    asked: Asked
    selected: list[Selected]
    open: dict[int, list[Selected]]
    """What has not finished yet, by job number."""
    progress: bool
    weight: int
    """Of `selected`; see `Waits.gather`."""


@dataclass(slots=True)
class _Client:
    """What one connection waits for."""

    waiters: dict[_Waiter, None] = field(default_factory=dict)
    weight: int = 0


class Waits:
    """See the module."""

    def __init__(self, engine: Engine, find_outcome: FindOutcome) -> None:
        self._engine = engine
        self._find_outcome = find_outcome
        self._by_job: dict[int, dict[_Waiter, None]] = {}
        self._clients: dict[Connection, _Client] = {}
        """Who waits or has waited, until they are gone."""
        self._weight = 0
        self._watched: dict[_Waiter, None] = {}
        """Those who want to hear of progress."""
        self._is_ticking = False

    def gather(self, asked: Asked, selections: Iterable[list[Selected]]) -> list[Selected]:
        """All that is selected; raises `Refused` as soon as that is more than may be waited for."""
        client = self._clients.get(asked.connection)
        held = 0 if client is None else client.weight
        gathered: list[Selected] = []
        weight = REQUEST_WEIGHT
        for selection in selections:
            gathered += selection
            weight += sum(len(item.indices) or 1 for item in selection)
            if held + weight > CLIENT_WAITS_MAX:
                raise _too_many(CLIENT_WAITS_MAX, "one connection", held)
            if self._weight + weight > ALL_WAITS_MAX:
                raise _too_many(ALL_WAITS_MAX, "all connections", self._weight)
        return gathered

    def add(self, asked: Asked, selected: list[Selected], *, progress: bool) -> None:
        """Answer when all of `selected` have finished; those unknown raise `NotFound`."""
        weight = REQUEST_WEIGHT + sum(len(item.indices) or 1 for item in selected)
        waiter = _Waiter(asked, selected, {}, progress, weight)
        for item in selected:
            if self._is_open(item):
                waiter.open.setdefault(item.job.number, []).append(item)
            else:
                self._find_outcome(item)
        if not waiter.open:
            self._engine.after_this_turn(lambda: self._finish(waiter))
            return
        if asked.connection.is_gone:
            return
        for number in waiter.open:
            self._by_job.setdefault(number, {})[waiter] = None
        self._enter(waiter)
        if progress:
            self._watched[waiter] = None
            self._tick_later()

    def job_settled(self, number: int) -> None:
        """A job has finished, durably."""
        for waiter in list(self._by_job.get(number, ())):
            self._close(waiter, number)

    def job_changed(self, number: int) -> None:
        """Something durable happened to a job; a task that somebody waits for may have ended.

        What the home knows may be ahead of what is durable: those waiters are told a turn later. Of
        a whole job `job_settled` tells.
        """
        if number not in self._engine.machine.home.jobs:
            return
        for waiter in list(self._by_job.get(number, ())):
            if not any(self._is_open(item) for item in waiter.open[number]):
                self._engine.request(partial(self._close_when_durable, waiter, number))

    def _close_when_durable(self, waiter: _Waiter, number: int, _now: Instant) -> None:
        self._engine.after_this_turn(lambda: self._close(waiter, number))

    def _is_open(self, item: Selected) -> bool:
        job = self._engine.machine.home.jobs.get(item.job.number)
        if job is None:
            return False
        states = (job.task_state(index) for index in item.indices)
        return not item.indices or any(state is not TaskState.FINISHED for state in states)

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
            self._finish(waiter)

    def _finish(self, waiter: _Waiter) -> None:
        if waiter.progress:
            waiter.asked.notice(self._progress(waiter))
        outcomes = tuple(self._find_outcome(item) for item in waiter.selected)
        waiter.asked.answer(Waited(outcomes))

    # --- clients ---------------------------------------------------------------------------------

    def _enter(self, waiter: _Waiter) -> None:
        connection = waiter.asked.connection
        client = self._clients.get(connection)
        if client is None:
            client = self._clients[connection] = _Client()
            connection.on_close.append(lambda: self._gone(connection))
        client.waiters[waiter] = None
        client.weight += waiter.weight
        self._weight += waiter.weight

    def _leave(self, waiter: _Waiter) -> None:
        """It waits no more."""
        client = self._clients[waiter.asked.connection]
        del client.waiters[waiter]
        client.weight -= waiter.weight
        self._weight -= waiter.weight

    def _gone(self, connection: Connection) -> None:
        """A client closed its connection: nobody is to be told of what it waits for."""
        client = self._clients.pop(connection)
        self._weight -= client.weight
        for waiter in client.waiters:
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
        for waiter in self._watched:
            waiter.asked.notice(self._progress(waiter))
        self._tick_later()

    def _progress(self, waiter: _Waiter) -> Progress:
        waiting = active = succeeded = failed = 0
        for item in waiter.selected:
            job = self._engine.machine.home.jobs.get(item.job.number)
            if job is not None and not item.indices:
                done = job.counts.get(EndCause.COMPLETED, 0)
                waiting += job.waiting
                active += job.active
                succeeded += done
                failed += sum(job.counts.values()) - done
            elif job is not None:
                counts = _task_progress(job, item.indices)
                waiting, active = waiting + counts[0], active + counts[1]
                succeeded += counts[2]
            else:
                finished = self._engine.machine.home.finished_counts(item.job.number)
                succeeded += finished[0]
                failed += finished[1]
        return Progress(waiting, active, succeeded, failed)


def _too_many(most: int, whose: str, held: int) -> Refused:
    return Refused(
        "too-many-waits",
        f"that is more than {most} jobs and tasks that {whose} may wait for at once ({held} "
        "are waited for already)",
        "name whole jobs instead of their tasks, or wait for some after the others",
    )


def _task_progress(job: JobState, indices: tuple[int, ...]) -> tuple[int, int, int]:
    waiting = active = 0
    for index in indices:
        state = job.task_state(index)
        waiting += state in (TaskState.QUEUED, TaskState.HELD)
        active += state not in (TaskState.QUEUED, TaskState.HELD, TaskState.FINISHED)
    return waiting, active, len(indices) - waiting - active


def wire_outcome(name: str, outcome: Outcome, message: str = "") -> WireOutcome:
    """An outcome as clients are told it."""
    return WireOutcome(name, outcome.cause, outcome.exit_code, outcome.signal, message)

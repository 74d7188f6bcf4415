"""Ends of jobs that others depend on, where only the store has them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from iriai.daemon.loop.engine import Engine
from iriai.daemon.requests.jobs.access import JobAccess
from iriai.daemon.requests.jobs.history import JobHistory
from iriai.daemon.server.connections import RequestContext
from iriai.home.dependencies import Ends
from iriai.model.instant import Instant
from iriai.model.job import Dependency
from iriai.model.problem import NotFound, Problem

Act = Callable[[Ends, Instant], None]


class DependencyOutcomes:
    """Looks up ends of jobs that others depend on."""

    def __init__(self, engine: Engine, past: JobHistory, owners: JobAccess) -> None:
        self._engine = engine
        self._history = past
        self._owners = owners

    def with_ends(
        self, asked: RequestContext, after: tuple[Dependency, ...], now: Instant, act: Act
    ) -> None:
        """Call `act` with the ends of `after`: now, or in a later turn with those in the store.

        The store is read once everything that happened so far is in it; jobs that end meanwhile
        are read in a second round. Raises `NotAllowed` for jobs of other users, since the end of a
        job is shown to the users whose jobs depend on it.
        """
        for number in dict.fromkeys(each.number for each in after):
            with suppress(NotFound):  # whose end may be remembered all the same
                self._owners.require(asked, number)
        self._go_on(asked, after, now, act, {})

    def _go_on(
        self,
        asked: RequestContext,
        after: tuple[Dependency, ...],
        now: Instant,
        act: Act,
        ended: Ends,
    ) -> None:
        unknown = [
            each
            for each in self._engine.machine.home.unknown_ends(after)
            if (each.number, each.task) not in ended
        ]
        if not unknown:
            act(ended, now)
            return

        def look() -> None:
            try:
                found = {(each.number, each.task): self._history.end_of(each) for each in unknown}
            except Problem as problem:
                asked.fail(problem)
                return
            self._engine.request(lambda later: again(later, {**ended, **found}))

        def again(later: Instant, known: Ends) -> None:
            try:
                self._go_on(asked, after, later, act, known)
            except Problem as problem:
                asked.fail(problem)

        self._engine.after_this_turn(look)

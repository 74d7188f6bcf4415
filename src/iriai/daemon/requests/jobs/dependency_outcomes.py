"""Ends of jobs that others depend on, where only the store has them."""

from __future__ import annotations

from contextlib import suppress

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import checkpoint
from iriai.daemon.server.connections import RequestContext
from iriai.home.job_lookup import Ends
from iriai.jobs.history import JobHistory
from iriai.jobs.queries import JobQueries
from iriai.model.job import Dependency
from iriai.model.problem import NotFound
from iriai.model.state import EndCause


class DependencyOutcomes:
    """Looks up ends of jobs that others depend on."""

    def __init__(self, engine: Engine, past: JobHistory, queries: JobQueries) -> None:
        self._engine = engine
        self._history = past
        self._queries = queries

    async def ends(self, asked: RequestContext, after: tuple[Dependency, ...]) -> Ends:
        """Return the ends of `after`, as far as they have ended.

        The store is read once everything that happened so far is in it; jobs that end meanwhile
        are read in a second round. Raises `NotAllowed` for jobs of other users, since the end of a
        job is shown to the users whose jobs depend on it.
        """
        for number in dict.fromkeys(each.number for each in after):
            with suppress(NotFound):  # whose end may be remembered all the same
                self._queries.require(number, asked.caller.own)
        ended: dict[tuple[int, int | None], EndCause] = {}
        while unknown := [
            each
            for each in self._engine.machine.home.unknown_ends(after)
            if (each.number, each.task) not in ended
        ]:
            await self._engine.written()
            ended |= {(each.number, each.task): self._history.end_of(each) for each in unknown}
            await checkpoint()
        return ended

"""Handlers of requests that change jobs: cancel, hold, release, suspend, alter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from msgspec import UNSET

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import checkpoint
from iriai.daemon.requests.jobs.dependency_outcomes import DependencyOutcomes
from iriai.daemon.requests.jobs.feasibility_requests import FeasibilityRequests, Judge
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability, OrderedRequests
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.home.job import JobState
from iriai.home.job_lookup import Ends
from iriai.jobs.alterations import alteration, require_whole
from iriai.jobs.drafts import want_of
from iriai.jobs.queries import JobQueries
from iriai.jobs.queue_rules import checked_queue
from iriai.jobs.selection import SelectedJobs, check_ids
from iriai.jobs.validation import dependencies_here
from iriai.model.alteration import Alteration, differences
from iriai.model.job import Dependency
from iriai.model.problem import Problem, Refused
from iriai.protocol.messages.scheduling import Want
from iriai.wire.changes import (
    Alter,
    AlterResult,
    Cancel,
    Changed,
    FieldChange,
    Hold,
    Release,
    SuspendTasks,
)

T = TypeVar("T")
_Act = Callable[[SelectedJobs, JobState, str], T]


class JobChanges:
    """Handlers of requests that change jobs."""

    def __init__(
        self,
        engine: Engine,
        live: LiveConfiguration,
        fits: FeasibilityRequests,
        queries: JobQueries,
        durability: Durability,
        ends: DependencyOutcomes,
        order: OrderedRequests,
    ) -> None:
        self._live = live
        self._order = order
        self._machine = engine.machine
        self._home = engine.machine.home
        self._fits = fits
        self._queries = queries
        self._durability = durability
        self._dependencies = ends

    @handles(Cancel)
    async def _cancel(self, asked: RequestContext, body: Cancel) -> Changed:
        def cancel(item: SelectedJobs, _job: JobState, by: str) -> int:
            asked.is_changing = True
            return self._home.cancel(item.job.number, tuple(item.indices), by)

        return await self._count(asked, body.ids, cancel)

    @handles(Hold, Release)
    async def _hold(self, asked: RequestContext, body: Hold | Release) -> Changed:
        is_hold = isinstance(body, Hold)
        is_operator = asked.caller.operator

        def hold(item: SelectedJobs, job: JobState, by: str) -> int:
            require_whole(item, "hold" if is_hold else "release")
            asked.is_changing = True
            number = item.job.number
            if not is_hold:
                return self._home.release(number, by, is_operator=is_operator)
            is_operators = is_operator and job.spec.user != by
            return self._home.hold(number, by, is_operators=is_operators)

        return await self._count(asked, body.ids, hold)

    @handles(SuspendTasks)
    async def _suspend(self, asked: RequestContext, body: SuspendTasks) -> Changed:
        refused: list[Refused] = []

        def suspend(item: SelectedJobs, _job: JobState, by: str) -> int:
            asked.is_changing = True
            number, indices = item.job.number, tuple(item.indices)
            try:
                return self._home.suspend(number, indices, by, is_wanted=body.is_wanted)
            except Refused as problem:  # others of the same name, or of the same range, may run
                refused.append(problem)
                return 0

        changed = await self._count(asked, body.ids, suspend)
        if refused and not any(changed.tasks.values()) and not changed.problems:
            raise refused[0]
        return changed

    async def _count(self, asked: RequestContext, ids: tuple[str, ...], act: _Act[int]) -> Changed:
        tasks, problems = await self._each(asked, ids, act)
        await self._durability.stored()
        return Changed({text: sum(found) for text, found in tasks.items()}, problems)

    async def _each(
        self, asked: RequestContext, ids: tuple[str, ...], act: _Act[T]
    ) -> tuple[dict[str, list[T]], dict[str, str]]:
        """Call `act` on each selection of `ids`; return the results and the problems, by id."""
        self._durability.check()
        check_ids(ids)
        done: dict[str, list[T]] = {}
        problems: dict[str, str] = {}
        by = asked.caller.person.name
        for text in dict.fromkeys(ids):
            try:
                for found in self._queries.changing(text, asked.caller.own):
                    if found is not None:
                        done.setdefault(text, []).append(act(*found, by))
                    await checkpoint()
            except Problem as problem:
                if len(ids) == 1:
                    raise
                problems[text] = str(problem)
        return done, problems

    # --- alter -----------------------------------------------------------------------------------

    @handles(Alter)
    async def _alter(self, asked: RequestContext, body: Alter) -> AlterResult:
        check_ids(body.ids)
        if body.queue is not UNSET:
            caller = asked.caller
            groups, is_operator = caller.person.groups, caller.operator
            checked_queue(self._live.now, body.queue, groups, is_operator=is_operator)
        after = None if body.after is UNSET else dependencies_here(body.after, self._home.name)
        place = await self._order.enter(asked.connection, asked.size_bytes)
        try:
            wants = [] if self._machine.decides_alone else await self._wants(asked, body)
            judge = await self._fits.judge(wants)
            ended = await self._dependencies.ends(asked, after or ())
            done, problems = await self._altered(asked, body, after, ended, judge)
        finally:
            self._order.leave(place)
        await self._durability.stored()
        changes = {job: tuple(found) for each in done.values() for job, found in each}
        return AlterResult(changes, problems)

    async def _wants(self, asked: RequestContext, body: Alter) -> list[Want]:
        """Return the request of one task for each job whose alteration concerns machines."""
        wants: dict[Want, None] = {}
        for text in body.ids:
            with suppress(Problem):  # it is told when the job is altered
                for item in self._queries.select(text, asked.caller.own):
                    await checkpoint()
                    job = self._home.jobs.get(item.job.number) if item else None
                    wanted = (
                        alteration(body, None, job.spec, self._live.now) if job else Alteration()
                    )
                    if job and wanted.concerns_machines and not body.wait_for_resources:
                        wants[want_of(self._home.name, wanted.applied(job.spec))] = None
        return list(wants)

    async def _altered(
        self,
        asked: RequestContext,
        body: Alter,
        after: tuple[Dependency, ...] | None,
        ended: Ends,
        judge: Judge,
    ) -> tuple[dict[str, list[tuple[str, list[FieldChange]]]], dict[str, str]]:
        def alter(item: SelectedJobs, job: JobState, by: str) -> tuple[str, list[FieldChange]]:
            require_whole(item, "alter")
            wanted = alteration(body, after, job.spec, self._live.now)
            if wanted.concerns_machines and not body.wait_for_resources:
                judge(want_of(self._home.name, wanted.applied(job.spec)))
            asked.is_changing = True
            change = self._home.alter(item.job.number, wanted, by, ended)
            found = differences(change.was, change.now) if change else []
            return str(item.job), [FieldChange(*each) for each in found]

        return await self._each(asked, body.ids, alter)

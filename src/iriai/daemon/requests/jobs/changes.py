"""Handlers of requests that change jobs: cancel, hold, release, alter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import checkpoint
from iriai.daemon.requests.jobs.access import JobAccess
from iriai.daemon.requests.jobs.dependency_outcomes import DependencyOutcomes
from iriai.daemon.requests.jobs.feasibility_requests import FeasibilityRequests, Judge
from iriai.daemon.requests.jobs.history import JobHistory
from iriai.daemon.requests.jobs.selection import (
    TASKS_AT_ONCE,
    SelectedJobs,
    check_ids,
    parts,
    select,
)
from iriai.daemon.requests.jobs.validation import (
    check_limit,
    check_name,
    check_throttle,
    check_urgency,
    checked_resources,
    dependencies_here,
)
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability, OrderedRequests
from iriai.daemon.startup.owner_expressions import canonical
from iriai.home.dependencies import Ends
from iriai.home.job import JobState
from iriai.model.alteration import Alteration, differences
from iriai.model.ids import JobId
from iriai.model.job import Dependency, JobSpec
from iriai.model.problem import NotFound, Problem, Refused, UsageProblem
from iriai.model.resources import FIELDS
from iriai.protocol.messages.scheduling import Want
from iriai.wire.changes import Alter, AlterResult, Cancel, Changed, FieldChange, Hold, Release

T = TypeVar("T")
_Act = Callable[[SelectedJobs, JobState, str], T]


class JobChanges:
    """Handlers of requests that change jobs."""

    def __init__(
        self,
        engine: Engine,
        fits: FeasibilityRequests,
        past: JobHistory,
        durability: Durability,
        ends: DependencyOutcomes,
        owners: JobAccess,
        order: OrderedRequests,
    ) -> None:
        self._owners = owners
        self._order = order
        self._home = engine.machine.home
        self._fits = fits
        self._history = past
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
        change = self._home.hold if is_hold else self._home.release

        def hold(item: SelectedJobs, _job: JobState, by: str) -> int:
            _require_whole(item, "hold" if is_hold else "release")
            asked.is_changing = True
            return change(item.job.number, by)

        return await self._count(asked, body.ids, hold)

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
                for item in self.select(text, asked):
                    await checkpoint()
                    if item is not None:
                        self._owners.require(asked, item.job.number)
                        job = self._waiting_or_running(item)
                        for part in parts(item):
                            done.setdefault(text, []).append(act(part, job, by))
                            await checkpoint()
            except Problem as problem:
                if len(ids) == 1:
                    raise
                problems[text] = str(problem)
        return done, problems

    def _waiting_or_running(self, item: SelectedJobs) -> JobState:
        job = self._home.jobs.get(item.job.number)
        if job is None:
            self._history.spec(item.job.number)  # raises where there never was such a job
            raise Refused("finished", f"{item.job} has finished")
        some = item.indices[:TASKS_AT_ONCE]
        if len(item.indices) == len(some) > 0 and not any(map(job.has_index, some)):
            raise NotFound("no-such-task", f"{item.job} has no task {item.indices[0]}")
        return job

    def select(self, text: str, asked: RequestContext) -> Iterator[SelectedJobs | None]:
        """Yield the jobs that `text` names; a pattern sees the caller's jobs, an operator's all."""
        user = None if asked.caller.operator else asked.caller.person.name
        return select(text, self._home.name, self._home.jobs, user)

    # --- alter -----------------------------------------------------------------------------------

    @handles(Alter)
    async def _alter(self, asked: RequestContext, body: Alter) -> AlterResult:
        check_ids(body.ids)
        after = None if body.after is UNSET else dependencies_here(body.after, self._home.name)
        place = await self._order.enter(asked.connection, asked.size_bytes)
        try:
            wants = [] if self._fits.is_here else await self._wants(asked, body)
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
                for item in self.select(text, asked):
                    await checkpoint()
                    job = self._home.jobs.get(item.job.number) if item else None
                    wanted = self._wanted(body, None, job.spec) if job else Alteration()
                    if job and wanted.concerns_machines and not body.wait_for_resources:
                        wants[self._want(wanted.applied(job.spec))] = None
        return list(wants)

    def _want(self, spec: JobSpec) -> Want:
        return Want(
            JobId(self._home.name, 0),
            spec.account,
            spec.resources,
            spec.time_limit_s,
            spec.urgency,
            0.0,
            1,
            exclusive=spec.exclusive,
            requirements=spec.requirements,
            rank=spec.rank,
        )

    async def _altered(
        self,
        asked: RequestContext,
        body: Alter,
        after: tuple[Dependency, ...] | None,
        ended: Ends,
        judge: Judge,
    ) -> tuple[dict[str, list[tuple[str, list[FieldChange]]]], dict[str, str]]:
        def alter(item: SelectedJobs, job: JobState, by: str) -> tuple[str, list[FieldChange]]:
            _require_whole(item, "alter")
            wanted = self._wanted(body, after, job.spec)
            if wanted.concerns_machines and not body.wait_for_resources:
                judge(self._want(wanted.applied(job.spec)))
            asked.is_changing = True
            change = self._home.alter(item.job.number, wanted, by, ended)
            found = differences(change.was, change.now) if change else []
            return str(item.job), [FieldChange(*each) for each in found]

        return await self._each(asked, body.ids, alter)

    def _wanted(
        self, body: Alter, after: tuple[Dependency, ...] | None, spec: JobSpec
    ) -> Alteration:
        """Return the alteration in `body`, checked as at submission; raise a `Problem`."""
        wanted = Alteration(
            name=body.name,
            time_limit_s=body.time_limit_s,
            urgency=body.urgency,
            throttle=body.throttle,
            exclusive=body.exclusive,
            after=UNSET if after is None else after,
        )
        amounts = {name: value for name in FIELDS if (value := getattr(body, name)) is not UNSET}
        if body.named is not UNSET:
            amounts["named"] = tuple({**dict(spec.resources.named), **dict(body.named)}.items())
        if amounts:
            resources = checked_resources(replace(spec.resources, **amounts))
            wanted = replace(wanted, resources=resources)
        if body.requirements is not UNSET:
            requirements = canonical(body.requirements, "--requirements")
            wanted = replace(wanted, requirements=requirements)
        if body.rank is not UNSET:
            wanted = replace(wanted, rank=canonical(body.rank, "--rank"))
        new = wanted.applied(spec)
        check_name(new.name)
        check_urgency(new.urgency)
        check_limit(new.time_limit_s)
        check_throttle(new.throttle, is_array=spec.is_array)
        return wanted


def _require_whole(item: SelectedJobs, what: str) -> None:
    if item.indices:
        raise UsageProblem(
            "whole-job", f"tasks of a job cannot be {_DONE[what]} alone", f"iriai {what} {item.job}"
        )


_DONE = {"hold": "held", "release": "released", "alter": "altered"}

"""Handlers of requests about jobs."""

from __future__ import annotations

import logging

import msgspec
from msgspec.structs import replace

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import checkpoint
from iriai.daemon.loop.routes import JobStored
from iriai.daemon.requests.jobs.changes import JobChanges
from iriai.daemon.requests.jobs.dependency_outcomes import DependencyOutcomes
from iriai.daemon.requests.jobs.explanations import Explanations
from iriai.daemon.requests.jobs.feasibility_requests import FeasibilityRequests
from iriai.daemon.requests.jobs.immediate_starts import ImmediateStarts
from iriai.daemon.requests.jobs.step_transit import StepTransit
from iriai.daemon.requests.jobs.steps import SpeaksFor, StepHandlers
from iriai.daemon.requests.jobs.streams import StreamHandlers
from iriai.daemon.requests.jobs.waits import JobWaiters
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability, OrderedRequests
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.notifications import check_notice
from iriai.daemon.tasks.stream_relay import StreamRelay
from iriai.home.core import NONE_ENDED
from iriai.home.job_lookup import Ends
from iriai.identity.users.permissions import Caller, Permissions
from iriai.jobs.admitted_limits import AdmittedAmounts
from iriai.jobs.drafts import Drafts
from iriai.jobs.history import JobHistory
from iriai.jobs.payloads import PayloadStore
from iriai.jobs.queries import JobQueries, check_listing, told_reasons
from iriai.jobs.queue_rules import checked_queue
from iriai.jobs.selection import check_ids
from iriai.jobs.validation import dependencies_here
from iriai.jobs.views import amounts, ranks_text
from iriai.model.ids import JobId
from iriai.model.job import (
    Dependency,
    task_count,
)
from iriai.model.problem import Refused
from iriai.model.submission import Interaction
from iriai.policy.service.allowances import HeldJobs
from iriai.protocol.messages.effects import JobCompleted
from iriai.protocol.messages.scheduling import Want
from iriai.wire.changes import AskStory, Story
from iriai.wire.requests import (
    AskWhy,
    DryRun,
    JobDetail,
    JobDraft,
    JobList,
    Jobs,
    Reasons,
    Show,
    Submit,
    Submitted,
    Wait,
    Waited,
)

log = logging.getLogger(__name__)


class JobHandlers:
    """Handlers of the requests about jobs."""

    def __init__(
        self,
        settings: DaemonSettings,
        live: LiveConfiguration,
        engine: Engine,
        users: Permissions,
        payloads: PayloadStore,
        fits: FeasibilityRequests,
        past: JobHistory,
        durability: Durability,
        streams: StreamRelay,
        speaks_for: SpeaksFor,
    ) -> None:
        """`speaks_for` judges other machines where a user there asks for job steps."""
        self._settings = settings
        self._live = live
        self._engine = engine
        self._users = users
        self._drafts = Drafts(
            settings.home, live.now, payloads, has_others=settings.cluster is not None
        )
        live.watchers.append(self._drafts.configured)
        self._fits = fits
        self._history = past
        self._durability = durability
        self._order = OrderedRequests()
        self._home = engine.machine.home
        limits = settings.configuration.limits
        self.held = HeldJobs(limits)
        self._queries = JobQueries(self._home, past, settings.paths.spool)
        self.streams = StreamHandlers(engine, self._queries, streams, limits.descriptors_per_user)
        text_bytes = past.text_bytes()
        for number, job in self._home.jobs.items():
            self.held.restore(number, job.spec, text_bytes)
            self.streams.restore(number, job)
        self._dependencies = DependencyOutcomes(engine, past, self._queries)
        self.changes = JobChanges(
            engine,
            live,
            fits,
            self._queries,
            durability,
            self._dependencies,
            self._order,
        )
        here = StepHandlers(engine, self._queries, durability, self.streams, streams, speaks_for)
        self.steps = StepTransit(engine, users, here)
        engine.routes.take(JobCompleted, self._job_finished)
        engine.routes.take(JobStored, self._job_changed)
        self.waits = JobWaiters(engine, self._queries.outcome, limits.waits_per_user)
        self._explanations = Explanations(engine)
        self._immediate = ImmediateStarts(engine, self._explanations)

    def limits(self) -> dict[str, dict[str, int]]:
        """Return live counts of refusals, by limit and user."""
        allowances = (self.waits.per_user, self.streams.per_user)
        return self.held.refusals | {each.key: each.refusals for each in allowances}

    def _job_finished(self, completed: JobCompleted) -> None:
        """Give back what a job held that has finished, and answer who waits for it."""
        number = completed.number
        self.held.job_finished(number)
        if number in self.streams.users:
            self.streams.finished(number)
        if number in self.waits.awaited:
            self.waits.job_finished(number)

    def _job_changed(self, changed: JobStored) -> None:
        if changed.number in self.waits.awaited:
            self.waits.job_changed(changed.number)
        self._immediate.job_changed(changed.number)

    # --- submission ------------------------------------------------------------------------------

    @handles(Submit)
    async def _submit(self, asked: RequestContext, body: Submit) -> Submitted | DryRun:
        draft, caller = body.draft, asked.caller
        after = dependencies_here(draft.after, self._settings.home) if draft.after else ()
        if body.dry_run:
            return await self._dry_run(asked, body, after)
        self._durability.check()
        if body.takes_input and not caller.operator:
            self.streams.per_user.check(caller.person.name)
        if not caller.operator:
            self.held.check(caller.person.name, asked.size_bytes)
        want = self._want(draft, caller)
        if self.held.is_by_account and not caller.operator:
            self.held.check_account(want.account, caller.person.name, asked.size_bytes)
        place = await self._order.enter(asked.connection, asked.size_bytes)
        try:
            if not draft.wait_for_resources:
                await self._fits.check(want)
            admitted = None
            if self._drafts.has_limits(want):
                admitted = self._drafts.admitted(want, await self._fits.pools_for(want))
                want = replace(want, resources=admitted.resources)
                if not draft.wait_for_resources:
                    await self._fits.check(want)
            ended = await self._dependencies.ends(asked, after) if after else NONE_ENDED
            job, answer = self._accept(asked, body, want, ended, admitted)
        finally:
            self._order.leave(place)
        try:
            await self._durability.stored(is_undone=True)
        except Refused:
            self._cancel(job.number, "it could not be stored")
            raise
        if body.immediate:
            refusal = await self._immediate.refusal(job.number)
            if refusal is not None:
                self._cancel(job.number, "it could not start at once")
                await self._durability.stored()
                raise refusal
        return answer

    def _want(self, draft: JobDraft, caller: Caller) -> Want:
        """Return the request of one task of a draft; raise a `Problem` if it is refused."""
        person = caller.person
        known = self._drafts.known(draft, person)
        if known is not None:
            return known
        self._drafts.check(draft)
        check_notice(draft.notify, self._settings.configuration.jobs.sendmail)
        self._users.check_may_run(person)
        checked_queue(self._live.now, draft.queue, person.groups, is_operator=caller.operator)
        account = self._users.account(person, draft.group, draft.account)
        return self._drafts.want(draft, account)

    def _accept(
        self,
        asked: RequestContext,
        body: Submit,
        want: Want,
        ended: Ends,
        admitted: AdmittedAmounts | None,
    ) -> tuple[JobId, Submitted]:
        if asked.connection.is_gone and body.draft.interaction is not Interaction.BATCH:
            # It left while another user was asked: nobody would hear of the job, or end it.
            log.info("a job is not accepted: its client is gone")
            raise Refused("client-gone", "the client of the job is gone")
        person = asked.caller.person
        made = self._drafts.spec(body, person, want, asked.size_bytes, admitted)
        spec, payloads, warnings = made
        asked.is_changing = True
        job = self._home.submit(spec, payloads, self._engine.now, ended)
        self.held.add(job.number, person.name, spec.account, asked.size_bytes)
        if spec.takes_input:
            self.streams.add(job.number, spec.user, asked.connection)
        if spec.checkpoint_exit is not None:
            from iriai.host.mounts import saves_note

            warnings += tuple(filter(None, [saves_note(spec.working_directory)]))
        return job, Submitted(str(job), task_count(spec.array), warnings)

    def _cancel(self, number: int, by: str) -> None:
        if number in self._home.jobs:
            self._home.cancel(number, (), by)

    async def _dry_run(
        self, asked: RequestContext, body: Submit, after: tuple[Dependency, ...]
    ) -> DryRun:
        draft = body.draft
        ended = await self._dependencies.ends(asked, after)
        waits_for = told_reasons(self._home.would_wait_for(after, ended))
        want = self._want(draft, asked.caller)
        if self._drafts.has_limits(want):
            admitted = self._drafts.admitted(want, await self._fits.pools_for(want))
            want = replace(want, resources=admitted.resources)
        lacking = await self._fits.waits_for(want, may_wait=draft.wait_for_resources)
        return DryRun(
            str(want.account),
            task_count(draft.array) if draft.array else 1,
            amounts(want.resources),
            want.limit_s,
            draft.output or "",
            waits_for + lacking,
            ranks_text(want.shape),
        )

    # --- looking ---------------------------------------------------------------------------------

    @handles(Jobs)
    async def _jobs(self, asked: RequestContext, body: Jobs) -> JobList:
        user = asked.caller.person.name
        check_listing(body, asked.caller.own)
        if body.finished:
            await self._all_written()
            return JobList(self._history.rows(body, user))
        rows: list[bytes] = []
        for some in self._queries.listing(body, user):
            rows += some
            if body.limit and len(rows) >= body.limit:
                break
            await checkpoint()
        rows = rows[: body.limit] if body.limit else rows
        starts = self._estimates() if rows else {}
        estimates = {f"{self._home.name}-{number}": wall_s for number, wall_s in starts.items()}
        return JobList(tuple(map(msgspec.Raw, rows)), estimates)

    async def _all_written(self) -> None:
        """Wait until everything that happened so far is stored."""
        await self._engine.written()
        await checkpoint()

    def _estimates(self) -> dict[int, float]:
        return self._engine.machine.estimated_starts(self._engine.now)

    @handles(Show)
    async def _show(self, asked: RequestContext, body: Show) -> JobDetail:
        selected = self._queries.one(body.id, asked.caller.own)
        number = selected.job.number
        job = self._home.jobs.get(number)
        waits = job is not None and job.waiting > 0
        reasons = await self._explanations.of(number) if waits else []
        if body.ranks or number not in self._home.jobs:
            await self._all_written()
        starts = self._estimates() if waits else {}
        return self._queries.detail(selected, reasons, starts, ranks=body.ranks)

    @handles(AskStory)
    async def _story(self, asked: RequestContext, body: AskStory) -> Story:
        selected = self._queries.one(body.id, asked.caller.own)
        await self._all_written()
        return self._history.story(selected)

    @handles(AskWhy)
    async def _why(self, asked: RequestContext, body: AskWhy) -> Reasons:
        selected = self._queries.one(body.id, asked.caller.own)
        state, reasons = self._queries.standing(selected)
        if reasons is None:
            reasons = await self._explanations.of(selected.job.number)
        return Reasons(body.id, state, told_reasons(reasons))

    # --- waiting ---------------------------------------------------------------------------------

    @handles(Wait)
    async def _wait(self, asked: RequestContext, body: Wait) -> Waited:
        check_ids(body.ids)
        named = (self._queries.select(text, asked.caller.own) for text in body.ids)
        selected = await self.waits.gather(asked, named)
        for number in dict.fromkeys(item.job.number for item in selected):
            self._queries.require(number, asked.caller.own)
            await checkpoint()
        return await self.waits.finished(asked, selected, progress=body.progress)

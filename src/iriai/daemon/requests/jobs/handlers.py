"""Handlers of requests about jobs."""

from __future__ import annotations

import logging

import msgspec
from msgspec.structs import replace

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import checkpoint
from iriai.daemon.payloads.payload_store import PassedDescriptors
from iriai.daemon.requests.jobs.access import JobAccess, require_own_listing
from iriai.daemon.requests.jobs.changes import JobChanges
from iriai.daemon.requests.jobs.dependency_outcomes import DependencyOutcomes
from iriai.daemon.requests.jobs.explanations import Explanations
from iriai.daemon.requests.jobs.feasibility_requests import FeasibilityRequests
from iriai.daemon.requests.jobs.history import ATTEMPTS_SHOWN_MAX, JobHistory
from iriai.daemon.requests.jobs.output import OutputHandlers
from iriai.daemon.requests.jobs.selection import SelectedJobs, check_ids, whole
from iriai.daemon.requests.jobs.submission import Submissions
from iriai.daemon.requests.jobs.validation import dependencies_here
from iriai.daemon.requests.jobs.views import (
    amounts,
    encoded_row,
    job_detail,
    job_row,
    job_state,
    matches,
    running_row,
)
from iriai.daemon.requests.jobs.waits import JobWaiters
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability, OrderedRequests
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.output_fetcher import OutputFetcher
from iriai.home.core import NONE_ENDED
from iriai.home.dependencies import Ends
from iriai.home.job import JobState
from iriai.model.ids import AttemptId, JobId, TaskId
from iriai.model.job import Dependency, Interaction, task_count
from iriai.model.name_pattern import name_pattern
from iriai.model.problem import NotFound, Problem, Refused
from iriai.model.reason import Reason
from iriai.model.state import TaskState
from iriai.policy.service.held_jobs import HeldJobs
from iriai.protocol.messages.effects import JobCompleted
from iriai.protocol.messages.scheduling import Want
from iriai.wire.changes import AskStory, Story
from iriai.wire.requests import (
    AskWhy,
    AttemptRow,
    DryRun,
    JobDetail,
    JobList,
    Jobs,
    Outcome,
    Reasons,
    Show,
    Submit,
    Submitted,
    Wait,
    Waited,
    Why,
)

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 256
"""Jobs of a listing before others may be served: a millisecond where all changed."""


class JobHandlers:
    """Handlers of the requests about jobs."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        submissions: Submissions,
        fits: FeasibilityRequests,
        descriptors: PassedDescriptors,
        past: JobHistory,
        durability: Durability,
        copies: OutputFetcher | None,
    ) -> None:
        """`copies` has output of other machines; None where all share one disk."""
        self._settings = settings
        self._engine = engine
        self._submissions = submissions
        self._fits = fits
        self._descriptors = descriptors
        self._history = past
        self._durability = durability
        self._order = OrderedRequests()
        self._home = engine.machine.home
        limits = settings.configuration.limits
        self.held = HeldJobs(limits)
        text_bytes = past.text_bytes()
        for number, job in self._home.jobs.items():
            self.held.restore(number, job.spec, text_bytes)
        self._owners = JobAccess(engine.machine.home, past)
        self.outputs = OutputHandlers(settings, engine, past, self._owners, copies)
        self._dependencies = DependencyOutcomes(engine, past, self._owners)
        self.changes = JobChanges(
            engine, fits, past, durability, self._dependencies, self._owners, self._order
        )
        engine.routes.take(JobCompleted, self._job_finished)
        self.waits = JobWaiters(engine, self._outcome, limits.waits_per_user)
        self._explanations = Explanations(engine)

    def limits(self) -> dict[str, dict[str, int]]:
        """Return live counts of refusals, by limit and user."""
        allowances = (self.waits.per_user, self._descriptors.per_user)
        return self.held.refusals | {each.key: each.refusals for each in allowances}

    def _job_finished(self, completed: JobCompleted) -> None:
        """Release what was kept for a job whose end is durable."""
        self._descriptors.drop(completed.number)
        self.held.job_finished(completed.number)

    # --- submission ------------------------------------------------------------------------------

    @handles(Submit)
    async def _submit(self, asked: RequestContext, body: Submit) -> Submitted | DryRun:
        draft, caller = body.draft, asked.caller
        after = dependencies_here(draft.after, self._settings.home) if draft.after else ()
        if body.dry_run:
            return await self._dry_run(asked, body, after)
        self._durability.check()
        if len(asked.descriptors) != body.descriptors:
            raise Problem("lost-descriptor", "the descriptor did not arrive with the request")
        if body.descriptors:
            self._fits.feasibility.check_input()
            if not caller.operator:
                self._descriptors.per_user.check(caller.person.name, body.descriptors)
        if not caller.operator:
            self.held.check(caller.person.name, asked.size_bytes)
        want = self._submissions.want(draft, caller.person)
        if self.held.is_by_account and not caller.operator:
            self.held.check_account(want.account, caller.person.name, asked.size_bytes)
        place = await self._order.enter(asked.connection, asked.size_bytes)
        try:
            if not draft.wait_for_resources:
                await self._fits.check(want)
            ended = await self._dependencies.ends(asked, after) if after else NONE_ENDED
            job, answer = self._accept(asked, body, want, ended)
        finally:
            self._order.leave(place)
        try:
            await self._durability.stored(is_undone=True)
        except Refused:
            self._cancel(job.number, "it could not be stored")
            raise
        return answer

    def _accept(
        self, asked: RequestContext, body: Submit, want: Want, ended: Ends
    ) -> tuple[JobId, Submitted]:
        if asked.connection.is_gone and body.draft.interaction is not Interaction.BATCH:
            # It left while another user was asked: nobody would hear of the job, or end it.
            log.info("a job is not accepted: its client is gone")
            raise Refused("client-gone", "the client of the job is gone")
        person = asked.caller.person
        made = self._submissions.spec(body.draft, person, body.descriptors, want, asked.size_bytes)
        spec, payloads, warnings = made
        asked.is_changing = True
        job = self._home.submit(spec, payloads, self._engine.now, ended)
        self.held.add(job.number, person.name, spec.account, asked.size_bytes)
        if body.descriptors:
            self._descriptors.keep(job.number, asked.detach_descriptors(), person.name)
        if spec.interaction is Interaction.TERMINAL:
            asked.connection.on_close.append(lambda: self._terminal_closed(job.number))
        return job, Submitted(str(job), task_count(spec.array), warnings)

    def _cancel(self, number: int, by: str) -> None:
        if number in self._home.jobs:
            self._home.cancel(number, (), by)

    async def _dry_run(
        self, asked: RequestContext, body: Submit, after: tuple[Dependency, ...]
    ) -> DryRun:
        draft, jobs = body.draft, self._settings.configuration.jobs
        ended = await self._dependencies.ends(asked, after)
        waits_for = tuple(_why(reason) for reason in self._home.would_wait_for(after, ended))
        want = self._submissions.want(draft, asked.caller.person)
        lacking = await self._fits.waits_for(want, may_wait=draft.wait_for_resources)
        return DryRun(
            str(want.account),
            task_count(draft.array) if draft.array else 1,
            amounts(want.resources),
            draft.time_limit_s or jobs.time_limit_s,
            draft.output or "",
            waits_for + lacking,
        )

    def _terminal_closed(self, number: int) -> None:
        """Cancel the tasks of a job that have not begun when its terminal is closed."""
        self._engine.request(lambda _: self._cancel(number, "its terminal was closed"))

    # --- looking ---------------------------------------------------------------------------------

    @handles(Jobs)
    async def _jobs(self, asked: RequestContext, body: Jobs) -> JobList:
        home, user = self._settings.home, asked.caller.person.name
        require_own_listing(asked, body)
        if body.name is not None:
            name_pattern(body.name)  # raises where it cannot be one
        if body.finished:
            await self._all_written()
            return JobList(self._history.rows(body, user))
        is_all = body.everyone and body.user is body.name is body.state is None
        own = None if body.everyone or body.user else user
        rows: list[bytes] = []
        jobs = tuple(self._home.jobs.values())
        for first in range(0, len(jobs), ROWS_AT_ONCE):
            some = jobs[first : first + ROWS_AT_ONCE]
            if is_all:
                rows += [encoded_row(home, job) for job in some]
            else:
                rows += [
                    encoded_row(home, job)
                    for job in some
                    if (own is None or job.spec.user == own or job.spec.account.user == own)
                    and matches(body, job, user)
                ]
            if body.limit and len(rows) >= body.limit:
                break
            await checkpoint()
        if body.limit:
            rows = rows[: body.limit]
        return JobList(tuple(map(msgspec.Raw, rows)), self._estimates() if rows else {})

    async def _all_written(self) -> None:
        """Wait until everything that happened so far is stored."""
        await self._engine.written()
        await checkpoint()

    def _estimates(self) -> dict[str, float]:
        home = self._settings.home
        starts = self._engine.machine.estimated_starts(self._engine.now)
        return {f"{home}-{number}": wall_s for number, wall_s in starts.items()}

    @handles(Show)
    async def _show(self, asked: RequestContext, body: Show) -> JobDetail:
        selected = self._one(body.id)
        self._owners.require(asked, selected.job.number)
        job = self._home.jobs.get(selected.job.number)
        if job is None:
            await self._all_written()
            return self._history.detail(selected)
        reasons = await self._explanations.of(job.number) if job.waiting else []
        return self._detail(job, selected, reasons)

    @handles(AskStory)
    async def _story(self, asked: RequestContext, body: AskStory) -> Story:
        selected = self._one(body.id)
        self._owners.require(asked, selected.job.number)
        await self._all_written()
        return self._history.story(selected)

    def _detail(self, job: JobState, selected: SelectedJobs, reasons: list[Reason]) -> JobDetail:
        home, spool = self._settings.home, self._settings.paths.spool
        attempts: list[AttemptRow] = []
        for index, task in job.tasks.items():
            if task.state is TaskState.QUEUED or (
                selected.indices and index not in selected.indices
            ):
                continue
            attempt = AttemptId(home, job.number, index, task.attempt)
            started = self._home.started_wall_s(attempt)
            ahead = self._home.explain_ahead(attempt)
            message = "" if ahead is None else f"{ahead.had}: it starts after what runs there"
            attempts.append(running_row(home, job, index, task, started, spool, message))
        room = ATTEMPTS_SHOWN_MAX - len(attempts)
        if room > 0:
            attempts += self._history.attempts(selected, job.spec, room)
        why = tuple(_why(reason) for reason in reasons)
        row = job_row(home, job)
        if job.waiting and row.start_wall_s is None:
            starts = self._engine.machine.estimated_starts(self._engine.now)
            row = replace(row, start_wall_s=starts.get(job.number))
        return job_detail(row, job.spec, job.counts, attempts[:ATTEMPTS_SHOWN_MAX], why)

    @handles(AskWhy)
    async def _why(self, asked: RequestContext, body: AskWhy) -> Reasons:
        selected = self._one(body.id)
        self._owners.require(asked, selected.job.number)
        job = self._home.jobs.get(selected.job.number)
        if job is None:
            self._history.outcome(selected)  # raises where there never was such a job
            return Reasons(body.id, TaskState.FINISHED, ())
        index = selected.indices[0] if selected.indices else None
        if index is None:
            state, waits = job_state(job), job.waiting > 0
        else:
            state = job.task_state(index)
            waits = state in (TaskState.QUEUED, TaskState.HELD)
        if not (waits and job.waiting):
            return Reasons(body.id, state, self._ahead(job, index))
        reasons = await self._explanations.of(job.number)
        return Reasons(body.id, state, tuple(_why(reason) for reason in reasons))

    def _ahead(self, job: JobState, index: int | None) -> tuple[Why, ...]:
        """Return why a prefetched task has not started; of a whole job, the first such task."""
        home = self._settings.home
        for number in job.tasks if index is None else (index,):
            task = job.tasks.get(number)
            if task is not None:
                attempt = AttemptId(home, job.number, number, task.attempt)
                reason = self._home.explain_ahead(attempt)
                if reason is not None:
                    return (_why(reason),)
        return ()

    # --- waiting ---------------------------------------------------------------------------------

    @handles(Wait)
    async def _wait(self, asked: RequestContext, body: Wait) -> Waited:
        check_ids(body.ids)
        named = (self.changes.select(text, asked) for text in body.ids)
        selected = await self.waits.gather(asked, named)
        for number in dict.fromkeys(item.job.number for item in selected):
            self._owners.require(asked, number)
            await checkpoint()
        return await self.waits.finished(asked, selected, progress=body.progress)

    def _outcome(self, selected: SelectedJobs) -> Outcome:
        number = selected.job.number
        outcome = None if selected.indices else self._home.outcomes.get(number)
        if outcome is not None and outcome.worst.exit_code == 0:
            worst = outcome.worst
            return Outcome(str(selected.job), worst.cause, worst.exit_code, worst.signal, "")
        return self._history.outcome(selected)

    # --- ids -------------------------------------------------------------------------------------

    def _one(self, text: str) -> SelectedJobs:
        selected = whole(text, self._settings.home)
        job = self._home.jobs.get(selected.job.number)
        if job is not None and selected.indices and not job.has_index(selected.indices[0]):
            task = TaskId(*selected.job, selected.indices[0])
            raise NotFound("no-such-task", f"there is no task {task}")
        return selected


def _why(reason: Reason) -> Why:
    return Why(reason.rule, reason.needed, reason.had, reason.machine)

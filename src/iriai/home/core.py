"""The home core: a job's existence, from its acceptance to its stored result.

In: what clients ask, messages from broker and nodes. Out: wants, runs, acknowledgements, and the
events that make the job's state. docs/spec/001 has the life cycle, docs/spec/002 the messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from iriai.home.changes import TurnChanges
from iriai.home.dependencies import TOLD_MAX, Dependents, Ends, Settled
from iriai.home.explain import explain_here, explain_open, waits_for_place
from iriai.home.job import JobState, Outcome
from iriai.home.leases import lost_result
from iriai.home.nodes import Nodes
from iriai.home.observed import Observed
from iriai.home.posts import Beside, Posts
from iriai.home.prerequisites import EndsMet, Known
from iriai.model.alteration import Alteration
from iriai.model.dependency import Dependency
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.problem import NotFound, Refused
from iriai.model.reason import Reason
from iriai.model.records import (
    Altered,
    Cancelled,
    Change,
    DependencyFailed,
    DependencyMet,
    Held,
    JobAccepted,
    JobEvent,
    JobFinished,
    NoticeDue,
    Promised,
    Released,
    Started,
)
from iriai.model.state import EndCause, TaskState
from iriai.model.stored import StoredJob
from iriai.protocol.effects import (
    Effect,
    JobSettled,
    LinkDown,
    LinkUp,
    Part,
    Persist,
    Send,
    Wake,
    WakeAt,
    WhyAnswered,
)
from iriai.protocol.messages import (
    Accepted,
    Begun,
    Decline,
    End,
    Explained,
    Match,
    Promise,
    Refusal,
    Renew,
    ToHome,
)
from iriai.protocol.notices import Notices

HomeEvent = ToHome | LinkUp | LinkDown | Wake

EVENTS_MAX = 512
"""Events of a job that are kept before they are folded into one: bounds what a restart replays."""
OUTCOMES_MAX = 20_000
"""Outcomes of finished jobs kept at hand for those who wait; older ones are in the store."""
NONE_ENDED: Ends = {}
"""Where the store need not be asked."""


class Home:
    """Jobs handed in here; see the module."""

    def __init__(
        self,
        name: str,
        next_number: int,
        jobs: Iterable[StoredJob],
        ended: Ends = NONE_ENDED,
        beside: Beside = tuple,
    ) -> None:
        """`next_number`, `jobs` and `ended` are as `StoredState` has them."""
        self.name = name
        self.jobs: dict[int, JobState] = {}
        self.outcomes: OrderedDict[int, Outcome] = OrderedDict()
        self._finished_counts: dict[int, tuple[int, int]] = {}
        self._next_number = next_number
        self._folded_at: dict[int, int] = {}
        self.posts = Posts(name, self.jobs, beside)
        self.observed = Observed()
        """What machines do beside what they say."""
        self._nodes = Nodes(name, self.jobs)
        self._dependents = Dependents()
        self._told = 0
        """Jobs that were told in this turn how something ended that they wait for."""
        self._alarm_s: float | None = None
        self._changes = TurnChanges()
        self._notices = Notices()
        self._finished: dict[int, JobState] = {}
        """Those that ended in this turn, until they are recorded."""
        self._effects: list[Effect] = []
        self._ahead: dict[AttemptId, str] = {}
        """The machines at which attempts wait that were handed out ahead, as those last said."""
        self._begun_wall_s: dict[AttemptId, float] = {}
        """When the attempts that run began; after a restart their nodes say it again."""
        self._handlers: dict[type, Callable[[Any, Instant], None]] = {
            Match: self._match,
            Promise: self._promise,
            Explained: self._explained,
            Accepted: self._accepted,
            Refusal: self._refused,
            Begun: self._begun,
            End: self._end,
            Renew: self._renew,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Wake: self._wake,
        }
        for stored in jobs:
            self._restore(stored)
        self._dependents.restore(self.jobs, ended)

    # --- what clients ask ------------------------------------------------------------------------

    def submit(
        self,
        spec: JobSpec,
        payloads: tuple[tuple[str, bytes], ...],
        now: Instant,
        ended: Ends = NONE_ENDED,
    ) -> JobId:
        """Accept a job. Its id may be told once the record that this leaves behind is durable.

        `ended`: how those ended that `unknown_ends` named. Raises `NotFound` or `Refused` where it
        waits for what is not there, or what can never be.
        """
        met = self._known().ends_met(spec.after, ended) if spec.after else ()
        number = self._next_number
        self._next_number += 1
        job = self.jobs[number] = JobState(number, spec, now.wall_s)
        self._effects.append(Persist(JobAccepted(number, spec, now.wall_s, payloads)))
        self._await(job, met)
        self.posts.changed(number)
        return JobId(self.name, number)

    def unknown_ends(self, after: tuple[Dependency, ...]) -> list[Dependency]:
        """Those whose end only the store knows. Raises `NotFound` for what never was."""
        known = self._known()
        return [each for each in after if known.end_of(each) is None]

    def would_wait_for(self, after: tuple[Dependency, ...], ended: Ends) -> list[Reason]:
        """What of `after` has not ended; raises as `submit` would."""
        met = dict(self._known().ends_met(after, ended))
        return explain_open(tuple(each for each in after if each not in met), self.jobs)

    def alter(
        self, number: int, wanted: Alteration, by: str, ended: Ends = NONE_ENDED
    ) -> Altered | None:
        """Change what the waiting tasks of a job ask for; None: nothing was different.

        `ended`, and what is raised: as in `submit`; `Refused` also where no task waits, or the job
        would wait for itself.
        """
        job = self.job(number)
        planned = self._known().alteration(job, wanted, by, ended)
        if planned is None:
            return None
        change, met = planned
        if "after" in change.now.fields:
            self._dependents.drop(number, job.open_after)
        job.apply(change)
        self._changes.other(number, change)
        if "after" in change.now.fields:
            self._await(job, met)
        self.posts.changed(number)
        return change

    def cancel(self, number: int, indices: tuple[int, ...], by: str) -> int:
        """Withdraw what waits and stop what runs; all tasks, where none is named.

        Returns how many tasks it concerned. Raises `NotFound` where the job is not here.
        """
        job = self.job(number)
        concerned = tuple(index for index in indices if job.has_index(index))
        if indices and not concerned:
            return 0
        changed = job.cancelled(concerned)
        if changed:
            self._changes.other(number, Cancelled(concerned, by))
            self.posts.changed(number)
            self._nodes.stop(job, frozenset(concerned))
            self._tell_dependents(job)
            self._finish_if_over(job)
        return changed

    def hold(self, number: int, by: str) -> int:
        """Keep the waiting tasks of a job from starting; returns how many there are."""
        return self._set_held(number, Held(by), is_held=True)

    def release(self, number: int, by: str) -> int:
        """Let the held tasks of a job start; returns how many there are."""
        return self._set_held(number, Released(by), is_held=False)

    def _set_held(self, number: int, change: Held | Released, *, is_held: bool) -> int:
        job = self.job(number)
        if job.held is is_held:
            return 0
        if is_held and not job.waiting:
            raise Refused("nothing-waits", f"{JobId(self.name, number)} has no task that waits")
        job.apply(change)
        self._changes.other(number, change)
        self.posts.changed(number)
        return job.waiting

    def job(self, number: int) -> JobState:
        """A job that has not finished; raises `NotFound`."""
        job = self.jobs.get(number)
        if job is None:
            missing = JobId(self.name, number)
            raise NotFound("no-such-job", f"{missing} is not a job that waits or runs")
        return job

    def started_wall_s(self, attempt: AttemptId) -> float | None:
        """When the process of an attempt that runs began; None: it did not, or is not heard of."""
        return self._begun_wall_s.get(attempt)

    def waits_for(self, attempt: AttemptId, machine: str = "") -> bool:
        """Whether the end of an attempt is not known yet (of one on that machine, if named)."""
        job = self._nodes.current(attempt)
        return job is not None and machine in ("", job.tasks[attempt.index].machine)

    def unsettled_on(self, machine: str) -> list[JobId]:
        """The jobs with attempts on a machine that are not settled.

        Looks at everything: not for each turn.
        """
        return [
            JobId(self.name, number)
            for number, job in self.jobs.items()
            if any(
                task.machine == machine and task.state is not TaskState.QUEUED
                for task in job.tasks.values()
            )
        ]

    # --- messages --------------------------------------------------------------------------------

    def handle(self, event: HomeEvent, now: Instant) -> list[Effect]:
        """Take one message in; the effects that cannot wait for `settle`."""
        self._handlers[type(event)](event, now)
        return self._take_effects()

    def settle(self, now: Instant) -> list[Effect]:
        """After the events of one instant: post wants that changed other than by matches."""
        if self._dependents.is_due:
            while settled := self._dependents.take(TOLD_MAX - self._told):
                self._told += len(settled)
                for each in settled:
                    self._settle_dependency(each)
        if self.posts.are_due:
            for message in self.posts.take(now):
                self._effects.append(Send("", Part.BROKER, message))
        self._set_alarm(now)
        return self._take_effects()

    def record(self, now: Instant) -> list[Effect]:
        """At the end of a turn: its changes as events, one for each job and run of like changes."""
        if self._changes:
            for number, changes in self._changes.take():
                self._record_job(number, changes, now)
        for number, job in self._finished.items():
            assert job.worst is not None
            spec = job.spec if job.altered else None
            finished = JobFinished(number, now.wall_s, job.worst.cause, spec)
            self._effects.append(Persist(finished))
            if _has_notice(job):
                self._effects.append(Persist(NoticeDue(number)))
        self._finished.clear()
        self._told = 0
        return self._take_effects()

    def finished_counts(self, number: int) -> tuple[int, int]:
        """Tasks of a job that finished lately: (completed, ended in any other way)."""
        return self._finished_counts.get(number, (0, 0))

    def explain(self, number: int) -> list[Reason]:
        """What in the home itself keeps the job's waiting tasks from starting."""
        return explain_here(self.name, self.job(number), self.jobs)

    def explain_ahead(self, attempt: AttemptId) -> Reason | None:
        """Why an attempt that has a claim has not started: it was handed out ahead."""
        return waits_for_place(self._ahead[attempt]) if attempt in self._ahead else None

    def rejoin(self, now: Instant) -> list[Effect]:
        """After a restart: ask again for every attempt whose end is not known."""
        self._nodes.rejoin(now.steady_s)
        return self._take_effects()

    def post_anew(self) -> None:
        """The broker is new, or can be reached again: it is told every want."""
        self.posts.anew()

    def check(self) -> None:
        """Raise where an invariant of this part is broken."""
        for job in self.jobs.values():
            job.check()
            assert not job.is_finished, f"job {job.number} has finished and is still kept"
        self._nodes.check()
        self._dependents.check(self.jobs)

    def _match(self, match: Match, now: Instant) -> None:
        number = match.job.number
        bound = self.posts.bound_to(match.machine, match.capability)
        if bound is not None and self._nodes.current(bound) is not None:
            self.posts.changed(number)  # it came twice: the broker is told how many wait
            return
        job = self.jobs.get(number)
        if job is None or not job.ready:
            decline = Decline(match.job, match.machine, match.capability)
            self._effects.append(Send(match.broker, Part.BROKER, decline))
            return
        index = job.first_waiting()
        machine = match.machine
        attempt = AttemptId(self.name, number, index, job.next_attempt(index))
        self.posts.bound(attempt, machine, match.capability, is_own=not match.broker)
        job.attempted(index, attempt.attempt, machine)
        self._changes.attempted(number, index, attempt.attempt, machine)
        self._nodes.run(attempt, job, machine, match.capability, now.steady_s)

    def _promise(self, promise: Promise, now: Instant) -> None:
        job = self.jobs.get(promise.job.number)
        if job is None or not job.ready:  # it concerns nothing that waits any more
            return
        in_s = promise.start_in_s
        change = Promised(None if in_s is None else now.wall_s + in_s, promise.machine)
        job.apply(change)
        self._changes.other(job.number, change)

    def _explained(self, explained: Explained, now: Instant) -> None:
        self._effects.append(WhyAnswered(explained.job.number, explained.reasons))

    def _may_tell(self, machine: str, attempt: AttemptId) -> bool:
        """Whether news of an attempt come from where it is; of one that is over none count."""
        job = self._nodes.current(attempt)
        if job is None or job.tasks[attempt.index].machine == machine:
            return True
        given = job.tasks[attempt.index].machine
        self._notices.note("not-its-own", machine, f"it spoke of {attempt}, which {given} has")
        return False

    def _accepted(self, accepted: Accepted, now: Instant) -> None:
        """The node has the claim; that the process runs is told by `Begun`."""
        if not self._may_tell(accepted.machine, accepted.attempt):
            return
        job = self._nodes.heard(accepted.attempt, accepted.machine)
        if job is not None and accepted.is_ahead:
            self._ahead[accepted.attempt] = accepted.machine
        else:  # it waits for no place, or not any more
            self._ahead.pop(accepted.attempt, None)

    def _refused(self, refusal: Refusal, now: Instant) -> None:
        job = self._nodes.current(refusal.attempt)
        if job is not None and self._may_tell(refusal.reason.machine, refusal.attempt):
            self.observed.refused(refusal.reason)
            refused = (EndCause.REFUSED, None, None)
            self._end_attempt(job, refusal.attempt, *refused, refusal=refusal.reason)

    def _begun(self, begun: Begun, now: Instant) -> None:
        if not self._may_tell(begun.machine, begun.attempt):
            return
        job = self._nodes.heard(begun.attempt, begun.machine)
        if job is None:
            return
        self._ahead.pop(begun.attempt, None)
        self._begun_wall_s[begun.attempt] = begun.started_wall_s
        _, number, index, attempt = begun.attempt
        if job.tasks[index].state is TaskState.CLAIMED:
            self.observed.begun += 1
            job.started(index, attempt)
            self._changes.started(number, index, attempt)

    def _end(self, end: End, now: Instant) -> None:
        result = end.result
        if not self._may_tell(result.machine, end.attempt):
            return
        self._nodes.acknowledge(end.attempt, result.machine)
        job = self._nodes.current(end.attempt)
        if job is None:  # repeated, or of an attempt that was replaced: the first result stands
            return
        self._effects.append(Persist(result))
        self.observed.ended(result, job.spec)
        self._end_attempt(job, end.attempt, result.cause, result.exit_code, result.signal)

    # --- leases ----------------------------------------------------------------------------------

    def _renew(self, renew: Renew, now: Instant) -> None:
        own = tuple(a for a in renew.unconfirmed if self._may_tell(renew.machine, a))
        self._nodes.renew(replace(renew, unconfirmed=own), now.steady_s)

    def _link_up(self, event: LinkUp, now: Instant) -> None:
        self._nodes.reached(event.machine)

    def _link_down(self, event: LinkDown, now: Instant) -> None:
        """Leases go on."""

    def _wake(self, event: Wake, now: Instant) -> None:
        """Attempts that nothing was heard of for longer than their lease are over."""
        self._alarm_s = None
        for machine, attempt in self._nodes.leases.over(now.steady_s):
            job = self.jobs[attempt.number]
            self._effects.append(Persist(lost_result(attempt, machine, job.spec, now.wall_s)))
            self._end_attempt(job, attempt, EndCause.LOST, None, None)

    def _set_alarm(self, now: Instant) -> None:
        next_s = self._nodes.leases.next_s
        if self._dependents.is_due:  # the others are told in turns that follow at once
            next_s = now.steady_s
        if next_s is not None and (self._alarm_s is None or next_s < self._alarm_s):
            self._alarm_s = next_s
            self._effects.append(WakeAt(Part.HOME, next_s))

    # --- dependencies ----------------------------------------------------------------------------

    def _known(self) -> Known:
        return Known(self.name, self._next_number, self.jobs, self.outcomes)

    def _await(self, job: JobState, met: EndsMet) -> None:
        """A job has new dependencies, some of which are met already."""
        if met:
            change = DependencyMet(met)
            job.apply(change)
            self._changes.other(job.number, change)
        self._dependents.add(job.number, job.open_after)

    def _tell_dependents(self, job: JobState) -> None:
        """Tasks of a job have ended: of those that wait for it some may be due."""
        number = job.number
        if number not in self._dependents:
            return
        for index in self._dependents.tasks(number):
            if job.task_state(index) is TaskState.FINISHED:
                self._dependents.ended(number, index, EndCause.CANCELLED)
        if job.spoilt_by is not None:
            self._dependents.cannot_complete(number, job.spoilt_by)

    def _settle_dependency(self, settled: Settled) -> None:
        """Tell one job how something ended that it waits for, if it still does."""
        number, dependency, cause = settled
        job = self.jobs.get(number)
        if job is None or dependency not in job.open_after:
            return
        self.posts.changed(number)
        if dependency.condition.holds(cause):
            met = DependencyMet(((dependency, cause),))
            job.apply(met)
            self._changes.other(number, met)
            return
        self._dependents.drop(number, job.open_after)
        failed = DependencyFailed(dependency, cause)
        job.apply(failed)
        self._changes.other(number, failed)
        self._tell_dependents(job)
        self._finish_if_over(job)

    # --- ends ------------------------------------------------------------------------------------

    def _end_attempt(
        self,
        job: JobState,
        attempt: AttemptId,
        cause: EndCause,
        exit_code: int | None,
        signal: int | None,
        *,
        refusal: Reason | None = None,
    ) -> None:
        index = attempt.index
        self._ahead.pop(attempt, None)
        self._begun_wall_s.pop(attempt, None)
        self._nodes.ended(attempt, job.tasks[index].machine)
        final = job.ended(index, attempt.attempt, cause, exit_code, signal)
        end = (index, attempt.attempt, cause, exit_code, signal)
        self._changes.ended(job.number, end, refusal)
        if index in job.tasks or (job.spec.throttle is not None and job.waiting):
            self.posts.changed(job.number)
        if final is not None and job.number in self._dependents:
            self._dependents.ended(job.number, index, final)
            self._tell_dependents(job)
        self._finish_if_over(job)

    def _finish_if_over(self, job: JobState) -> None:
        if not job.is_finished:
            return
        assert job.worst is not None
        number = job.number
        del self.jobs[number]
        self._dependents.drop(number, job.open_after)
        self._dependents.ended(number, None, job.worst.cause)
        self.outcomes[number] = job.worst
        succeeded = job.counts.get(EndCause.COMPLETED, 0)
        self._finished_counts[number] = (succeeded, sum(job.counts.values()) - succeeded)
        if len(self.outcomes) > OUTCOMES_MAX:
            oldest, _ = self.outcomes.popitem(last=False)
            del self._finished_counts[oldest]
        self._folded_at.pop(number, None)
        self.posts.forget(number)
        self._effects.append(JobSettled(number, _has_notice(job)))
        self._finished[number] = job

    # --- events ------------------------------------------------------------------------

    def _record_job(self, number: int, changes: list[Change], now: Instant) -> None:
        job = self.jobs.get(number) or self._finished[number]
        for change in changes:
            self._record_change(job, change, now)
        if job.sequence - self._folded_at.get(number, 0) >= EVENTS_MAX and not job.is_finished:
            self._record_change(job, job.folded(), now)
            self._folded_at[number] = job.sequence

    def _record_change(self, job: JobState, change: Change, now: Instant) -> None:
        job.sequence += 1
        event = JobEvent(job.number, job.sequence, now.wall_s, change, now.cause)
        self._effects.append(Persist(event, urgent=not isinstance(change, Started)))

    def _restore(self, stored: StoredJob) -> None:
        job = JobState(stored.number, stored.spec, stored.submitted_wall_s)
        for event in stored.events:
            job.apply(event.change)
            job.sequence = event.sequence
        if stored.events:
            self._folded_at[job.number] = stored.events[0].sequence
        self.jobs[job.number] = job
        self.posts.changed(job.number)

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        effects += self._nodes.take()
        effects += self._notices.take()
        return effects


def _has_notice(job: JobState) -> bool:
    """Whether the user of a job that has finished wants to be told."""
    spec = job.spec
    return bool(spec.notify and job.worst and spec.notify_on.concerns(job.worst.cause))

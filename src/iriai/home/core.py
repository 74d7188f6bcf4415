"""The home core: the authority on a job from its acceptance to its stored result.

In: requests of clients, messages from broker and nodes. Out: wants, runs, acknowledgements, and the
events that make the job's state. docs/spec/001 has the life cycle, docs/spec/002 the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from iriai.home.attempts import Attempts
from iriai.home.completion import Completion, EventLog
from iriai.home.explain import explain_here, explain_open
from iriai.home.job import JobOutcome, JobState
from iriai.home.job_lookup import Ends, JobLookup
from iriai.home.request_publisher import RequestPublisher
from iriai.model.alteration import Alteration
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.job import Dependency, JobSpec
from iriai.model.policy_terms import PolicyTerms
from iriai.model.problem import NotFound, Refused
from iriai.model.reason import Reason
from iriai.model.records import (
    Altered,
    Cancelled,
    Commented,
    Held,
    JobAccepted,
    Promised,
    Released,
    Requeued,
)
from iriai.model.reservation import DEFAULT_LIMITS, Reservation, ReservationLimits
from iriai.model.snapshot import StoredJob
from iriai.model.state import TaskState
from iriai.protocol.messages.effects import (
    Effect,
    LinkDown,
    LinkUp,
    Part,
    Persist,
    Send,
    Timer,
    Wake,
    WhyAnswered,
)
from iriai.protocol.messages.proposals import Propose
from iriai.protocol.messages.reservations import (
    Booked,
    NodesOffered,
    NotBooked,
    ReservationToHome,
)
from iriai.protocol.messages.scheduling import (
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
from iriai.protocol.messages.steps import StepBegun, StepEnded
from iriai.protocol.messages.suspension import Suspended

if TYPE_CHECKING:
    from iriai.home.proposals import HomeProposals
    from iriai.home.reservations.home_reservations import HomeReservations
    from iriai.home.reservations.jobs_inside import JobsInside
    from iriai.home.reservations.occurrence import Expand

HomeEvent = ToHome | LinkUp | LinkDown | Wake

NONE_ENDED: Ends = {}
"""No ended jobs: the value if the store need not be asked."""
NO_TERMS = PolicyTerms()
"""No policy changes its jobs."""


class Home:
    """The home core: jobs submitted on this machine."""

    def __init__(
        self,
        name: str,
        next_number: int,
        jobs: Iterable[StoredJob],
        ended: Ends = NONE_ENDED,
        reservations: Iterable[Reservation] = (),
        next_reservation: int = 1,
        rng: Random | None = None,
        limits: ReservationLimits = DEFAULT_LIMITS,
        expand: Expand | None = None,
        policy_terms: PolicyTerms = NO_TERMS,
    ) -> None:
        """All before `rng` is as `StoredState` has it; `rng` draws pauses.

        `expand` returns the occurrences of a rule of repetition; None: those of RFC 5545.
        """
        self.name = name
        self.jobs: dict[int, JobState] = {}
        self._next_number = next_number
        self._rng = rng
        self._expand = expand
        self.limits = limits
        """Of what each account may reserve."""
        self._reserved = {each.number: each for each in reservations}
        self._next_reservation = next_reservation
        self._reservations: HomeReservations | None = None
        """None: there are none, and never were since the last restart."""
        self._inside: JobsInside | None = None
        self.policy_terms = policy_terms
        """What its cluster's policy may do with its jobs."""
        self._proposals: HomeProposals | None = None
        self.requests = RequestPublisher(name, self.jobs, self._reserved, policy_terms.may)
        self._effects: list[Effect] = []
        """The effects since the last drain, in order; the parts of the home append to it."""
        self._log = EventLog(self.jobs)
        self._completion = Completion(self.jobs, self.requests, self._log, self._effects)
        self._attempts = Attempts(
            name, self.jobs, self.requests, self._log, self._completion, self._effects
        )
        self.steps = self._attempts.steps
        self.stats = self._attempts.stats
        """Statistics of what machines do, beside what they report."""
        self._nodes = self._attempts.nodes
        self._alarm = Timer(Part.HOME)
        self._is_alarm_due = True
        """Whether leases or dependents may have changed."""
        self._handlers: dict[type, Callable[[Any, Instant], None]] = {
            Match: self._match,
            Promise: self._promise,
            Explained: self._explained,
            Propose: self._proposed,
            Accepted: self._attempts.accepted,
            Refusal: self._attempts.refused,
            Begun: self._attempts.begun,
            Suspended: self._attempts.suspended,
            End: self._attempts.ended,
            Renew: self._attempts.renew,
            StepBegun: self._attempts.step_begun,
            StepEnded: self._attempts.step_ended,
            **dict.fromkeys((NodesOffered, Booked, NotBooked), self._of_reservation),
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Wake: self._wake,
        }
        for stored in jobs:
            self._restore(stored)
        if self._reserved:
            self._reservations = self.reservations
        self._completion.dependents.restore(self.jobs, ended)

    @property
    def outcomes(self) -> Mapping[int, JobOutcome]:
        """Return the outcomes of recently finished jobs, by number."""
        return self._completion.outcomes

    @property
    def reserved(self) -> Mapping[int, Reservation]:
        """Return what is stored of reservations, by number; also of those that are over."""
        return self._reserved

    @property
    def reservations(self) -> HomeReservations:
        """Return the reservations of this home."""
        if self._reservations is None:
            from iriai.home.reservations.home_reservations import HomeReservations
            from iriai.home.reservations.jobs_inside import JobsInside

            self._reservations = HomeReservations(
                self.name,
                self._reserved,
                self._next_reservation,
                self._effects,
                self._rng,
                self.limits,
                self._expand,
            )
            told = (self._log, self._completion)
            use = (self._attempts.inside, self._attempts.started_wall_s)
            self._inside = JobsInside(self.name, self._reserved, self.jobs, *told, *use)
        return self._reservations

    @property
    def has_dependents(self) -> bool:
        """Return whether a job waits for the end of another."""
        return bool(self._completion.dependents)

    # --- requests of clients ---------------------------------------------------------------------

    def submit(
        self,
        spec: JobSpec,
        payloads: tuple[tuple[str, bytes], ...],
        now: Instant,
        ended: Ends = NONE_ENDED,
    ) -> JobId:
        """Accept a job. Its id may be sent once the record of its acceptance is durable.

        `ended` has the ends of the dependencies that `unknown_ends` returned. Raises `NotFound` if
        a dependency does not exist, `Refused` if one can never hold, or its user may not use the
        reservation.
        """
        if spec.reservation is not None:
            self.reservations.check_may_use(spec.reservation, spec.user, spec.account, now)
        met = self._known().dependencies_met(spec.after, ended) if spec.after else ()
        number = self._next_number
        self._next_number += 1
        job = self.jobs[number] = JobState(number, spec, now.wall_s)
        if self._inside is not None and spec.reservation is not None:
            self._inside.submitted(job)
        self._effects.append(Persist(JobAccepted(number, spec, now.wall_s, payloads)))
        if spec.after:
            self._completion.wait(job, met)
        self.requests.changed(number)
        return JobId(self.name, number)

    def unknown_ends(self, after: tuple[Dependency, ...]) -> list[Dependency]:
        """Return those whose end only the store knows; raise `NotFound` for unknown jobs."""
        known = self._known()
        return [each for each in after if known.end_of(each) is None]

    def would_wait_for(self, after: tuple[Dependency, ...], ended: Ends) -> list[Reason]:
        """Return the reasons to wait for `after`, as far as it has not ended; raise as `submit`."""
        met = dict(self._known().dependencies_met(after, ended))
        return explain_open(tuple(each for each in after if each not in met), self.jobs)

    def alter(
        self, number: int, wanted: Alteration, by: str, ended: Ends = NONE_ENDED
    ) -> Altered | None:
        """Change what the waiting tasks of a job ask for; return None if nothing differs.

        `ended`, and what is raised: as in `submit`; `Refused` also if no task waits, or the job
        would wait for itself.
        """
        job = self.job(number)
        planned = self._known().alteration(job, wanted, by, ended)
        if planned is None:
            return None
        change, met = planned
        if "after" in change.now.fields:
            self._completion.dependents.drop(number, job.open_after)
        self._log.apply(job, change)
        if "after" in change.now.fields:
            self._completion.wait(job, met)
        self.requests.changed(number)
        return change

    def cancel(self, number: int, indices: tuple[int, ...], by: str) -> int:
        """Withdraw waiting tasks and stop running ones: `indices`, or all tasks if it is empty.

        Return the number of tasks concerned; raise `NotFound` if the job is not here.
        """
        job = self.job(number)
        concerned = tuple(index for index in indices if job.has_index(index))
        if indices and not concerned:
            return 0
        changed = job.cancelled(concerned)
        if changed:
            self._log.add(number, Cancelled(concerned, by))
            self.requests.changed(number)
            self._nodes.stop(job, frozenset(concerned))
            self._completion.withdrawn(job)
        return changed

    def hold(self, number: int, by: str, *, is_operators: bool = False) -> int:
        """Keep the waiting tasks of a job from starting; returns how many there are.

        `is_operators`: its user may not release it. Raises `Refused` if none waits.
        """
        return self._set_held(number, Held(by, is_operators), is_held=True)

    def requeue(self, number: int, index: int, by: str) -> None:
        """End the attempt of a task that runs; the task waits again, the first of its account."""
        job = self.job(number)
        attempt = AttemptId(self.name, number, index, job.tasks[index].attempt)
        self._log.apply(job, Requeued(((index, attempt.attempt),), by))
        self._nodes.stop_seats(attempt, job)

    def comment(self, number: int, text: str, by: str) -> None:
        """Write a comment on a job, in place of the one before."""
        self._log.apply(self.job(number), Commented(text, by))
        self.requests.changed(number)

    def suspend(self, number: int, indices: tuple[int, ...], by: str, *, is_wanted: bool) -> int:
        """Suspend running tasks, or let them go on: `indices`, or all tasks if it is empty.

        Return how many are concerned. Raises `NotFound` if the job is not here, `Refused` if none
        of the tasks runs, or none is suspended.
        """
        self.job(number)
        return self._attempts.suspensions.want(number, indices, by, is_wanted=is_wanted)

    def release(self, number: int, by: str, *, is_operator: bool = False) -> int:
        """Let the held tasks of a job start; returns how many there are.

        Raises `Refused` if an operator held it, and `by` is none.
        """
        job = self.job(number)
        if job.is_operators_hold and not is_operator:
            raise Refused(
                "held-by-operator",
                f"{JobId(self.name, number)} was held by {job.held_by}",
                "an operator may release it",
            )
        return self._set_held(number, Released(by), is_held=False)

    def _set_held(self, number: int, change: Held | Released, *, is_held: bool) -> int:
        job = self.job(number)
        if job.held is is_held:
            return 0
        if is_held and not job.waiting:
            raise Refused("nothing-waits", f"{JobId(self.name, number)} has no task that waits")
        self._log.apply(job, change)
        self.requests.changed(number)
        return job.waiting

    def job(self, number: int) -> JobState:
        """Return a job that has not finished; raise `NotFound` if there is none."""
        job = self.jobs.get(number)
        if job is None:
            missing = JobId(self.name, number)
            raise NotFound("no-such-job", f"{missing} is not a job that waits or runs")
        return job

    def started_wall_s(self, attempt: AttemptId) -> float | None:
        """Return when the process of a running attempt began; None: it is not known to run."""
        return self._attempts.started_wall_s(attempt)

    def waits_for(self, attempt: AttemptId, machine: str = "") -> bool:
        """Return whether the end of a rank of an attempt (on that machine, if named) may come.

        Or that of a job step.
        """
        if attempt.step:
            return self.steps.is_live(attempt)
        if not self._nodes.is_current(attempt):
            return False
        task = self.jobs[attempt.number].tasks[attempt.index]
        is_there = machine in ("", task.machine_with(attempt.rank))
        return is_there and task.is_awaited(attempt.rank)

    def unsettled_on(self, machine: str) -> list[JobId]:
        """Return the jobs with unsettled attempts on a machine.

        This goes over all jobs, so it is too slow for each turn.
        """
        return [
            JobId(self.name, number)
            for number, job in self.jobs.items()
            if any(
                task.state is not TaskState.QUEUED and any(at == machine for _, at in task.seats())
                for task in job.tasks.values()
            )
        ]

    # --- messages --------------------------------------------------------------------------------

    def handle(self, event: HomeEvent, now: Instant) -> list[Effect]:
        """Handle one message; return the effects that cannot wait for `end_turn`."""
        self.take(event, now)
        return self.drain_effects()

    def take(self, event: HomeEvent, now: Instant) -> None:
        """Handle one message; `drain_effects` returns the effects of several."""
        self._handlers[type(event)](event, now)
        self._is_alarm_due = True

    def drain_effects(self) -> list[Effect]:
        """Return the effects since the last call."""
        if not (self._effects or self._attempts.incidents.unreported):
            return []
        effects = self._effects.copy()
        self._effects.clear()
        if self._attempts.incidents.unreported:
            effects += self._attempts.incidents.drain()
        return effects

    def end_turn(self, now: Instant) -> list[Effect]:
        """After the events of one instant, send the requests that changed other than by matches."""
        if self._reservations is not None:
            self._settle_reservations(self._reservations, now)
        if self._completion.dependents.due:
            self._completion.notify_due()
            self._is_alarm_due = True
        if self.requests.is_due:
            for message in self.requests.drain(now):
                self._effects.append(Send("", Part.BROKER, message))
        if self._is_alarm_due:
            self._is_alarm_due = False
            self._set_alarm(now)
        return self.drain_effects()

    def record(self, now: Instant) -> list[Effect]:
        """Record the changes of a turn: one event for each job and sequence of equal changes."""
        if self._log.has_news:
            self._effects.extend(self._log.drain(now))
        self._completion.notified = 0
        return self.drain_effects()

    def explain(self, number: int) -> list[Reason]:
        """Return the reasons in the home itself that keep the job's waiting tasks from starting."""
        job = self.job(number)
        reasons = explain_here(self.name, job, self.jobs)
        if job.spec.reservation is not None:
            from iriai.home.reservations.jobs_inside import explain_unopened

            reasons += explain_unopened(self._reserved, job.spec)
        return reasons

    def explain_beside(self, number: int, reasons: Iterable[Reason]) -> list[Reason]:
        """Return the reasons of the broker, and what the reservation of a job lacks."""
        job, found = self.jobs.get(number), list(reasons)
        if job is not None and job.spec.reservation is not None:
            from iriai.home.reservations.jobs_inside import explain_degraded

            found += explain_degraded(self._reserved, job.spec)
        return found

    def explain_ahead(self, attempt: AttemptId) -> Reason | None:
        """Return why an attempt with a claim has not started: its claim was granted ahead."""
        return self._attempts.explain_ahead(attempt)

    def rejoin(self, now: Instant) -> list[Effect]:
        """After a restart: ask again for every attempt whose end is not known."""
        self._attempts.rejoin(now)
        if self._reservations is not None:
            self._reservations.rejoin(now)
        self._is_alarm_due = True
        return self.drain_effects()

    def resend_requests(self) -> None:
        """Send every request again: the broker is new, or can be reached again."""
        self.requests.resend()

    def check(self) -> None:
        """Raise if an invariant of this part is broken."""
        for job in self.jobs.values():
            job.check()
            assert not job.is_finished, f"job {job.number} has finished and is still kept"
        self._nodes.check()
        self._completion.dependents.check(self.jobs)
        if self._reservations is not None:
            self._reservations.check()

    # --- messages of brokers ---------------------------------------------------------------------

    def _match(self, match: Match, now: Instant) -> None:
        number = match.job.number
        if self._attempts.is_bound(match):
            self.requests.changed(
                number
            )  # it came twice: the broker gets the number of waiting tasks
            return
        job = self.jobs.get(number)
        if (
            job is None
            or not job.ready
            or not self._attempts.suits(job, match)
            or (job.spec.reservation is not None and self._is_outside(job, match, now))
        ):
            decline = Decline(match.job, match.seats)
            self._effects.append(Send(match.broker, Part.BROKER, decline))
            return
        self._attempts.begin(job, match, now)

    def _is_outside(self, job: JobState, match: Match, now: Instant) -> bool:
        """Return whether a match is with machines that do not have a job's reservation."""
        return self._inside is not None and self._inside.is_outside(job, match.seats, now)

    def _promise(self, promise: Promise, now: Instant) -> None:
        job = self.jobs.get(promise.job.number)
        if job is None or not job.ready:  # no task of it waits any more
            return
        in_s = promise.start_in_s
        start_wall_s = None if in_s is None else now.wall_s + in_s
        self._log.apply(job, Promised(start_wall_s, promise.machine, promise.pool))

    def _proposed(self, propose: Propose, now: Instant) -> None:
        if self._proposals is None:
            from iriai.home.proposals import HomeProposals

            self._proposals = HomeProposals(self.name, self)
        answer = self._proposals.answer(propose, self.policy_terms, now)
        if answer is not None:
            self._effects.append(Send("", Part.BROKER, answer))

    def _explained(self, explained: Explained, now: Instant) -> None:
        number = explained.job.number
        reasons = self.explain_beside(number, explained.reasons)
        self._effects.append(WhyAnswered(number, tuple(reasons)))

    # --- the rest --------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp, now: Instant) -> None:
        """Send again what a machine that can be reached again may not have received."""
        self._attempts.link_up(event, now)
        if self._reservations is not None:
            self._reservations.link_up(event.machine, now)

    def _of_reservation(self, message: ReservationToHome, now: Instant) -> None:
        self.reservations.take(message, now)

    def _settle_reservations(self, reservations: HomeReservations, now: Instant) -> None:
        """Do what is due for reservations, and withdraw what waits for those that are over."""
        assert self._inside is not None
        for number in self._attempts.inside.drain():
            reservations.note_used(number)
        for number in reservations.settle(now, self._inside):
            for job in self._inside.ended(number):
                self.requests.changed(job)
        for job in self._inside.again(now):
            self.requests.changed(job)
        self._inside.withdraw(self.requests.due)
        next_s = min(reservations.next_s(now), self._inside.next_s)
        if next_s < inf:
            self._effects.extend(self._alarm.by(next_s))

    def _link_down(self, event: LinkDown, now: Instant) -> None:
        """Leases go on."""
        if self._reservations is not None:
            self._reservations.link_down(event.machine, now)

    def _wake(self, event: Wake, now: Instant) -> None:
        self._alarm.rang()
        self._attempts.give_up_undecided(now)
        self._attempts.give_up_unheard(now)

    def _set_alarm(self, now: Instant) -> None:
        next_s = self._attempts.next_s
        if self._completion.dependents.due:  # the others are notified in the next turns, at once
            next_s = now.steady_s
        if next_s is not None:
            self._effects.extend(self._alarm.by(next_s))

    def _known(self) -> JobLookup:
        return JobLookup(self.name, self._next_number, self.jobs, self.outcomes)

    def _restore(self, stored: StoredJob) -> None:
        job = JobState(stored.number, stored.spec, stored.submitted_wall_s)
        for event in stored.events:
            job.apply(event.change)
            job.sequence = event.sequence
        if stored.events:
            self._log.restored(job.number, stored.events[0].sequence)
        self.jobs[job.number] = job
        self.requests.changed(job.number)

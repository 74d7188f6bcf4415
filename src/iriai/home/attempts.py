"""Attempts in progress, as nodes report them: accepted, started, refused, ended, silent."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.home.active_task import ActiveTask
from iriai.home.completion import Completion, EventLog
from iriai.home.explain import waits_for_place
from iriai.home.job import JobState
from iriai.home.leases import MachineStats, lost_result
from iriai.home.node_sessions import NodeSessions
from iriai.home.parallel_attempt import ParallelAttempt
from iriai.home.request_publisher import RequestPublisher
from iriai.home.reservations.use_inside import UseInside
from iriai.home.steps import HomeSteps
from iriai.home.suspension import HomeSuspensions
from iriai.model.claim import HOLD_S, Phase
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.ranks import ONE, SeatPlace, has_shape
from iriai.model.reason import Reason, Rule
from iriai.model.records import Attempted, AttemptResult, Decided, Ended, SeatEnded, Started
from iriai.model.state import EndCause, TaskState
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import Effect, LinkUp, Persist
from iriai.protocol.messages.scheduling import (
    Accepted,
    Begun,
    Capability,
    End,
    Match,
    Refusal,
    Renew,
    SeatOffers,
)
from iriai.protocol.messages.steps import StepBegun, StepEnded
from iriai.protocol.messages.suspension import Suspended
from iriai.protocol.misbehaviour import Incidents

HOLD_PART = 0.9
"""Part of the time for which machines hold seats, by the home's count: its clock may be slower than
theirs, and its count begins when it asks (docs/adr/0011)."""
NAMED_MAX = 8
"""Machines that a reason names."""


class Attempts:
    """The attempts in progress, from the match to the end."""

    def __init__(
        self,
        home: str,
        jobs: dict[int, JobState],
        requests: RequestPublisher,
        log: EventLog,
        completion: Completion,
        effects: list[Effect],
    ) -> None:
        self._home = home
        self._requests = requests
        self._log = log
        self._completion = completion
        self._effects = effects
        self._jobs = jobs
        self.nodes = NodeSessions(home, jobs, effects)
        self.steps = HomeSteps(home, jobs, log, effects)
        self.suspensions = HomeSuspensions(home, jobs, log, self.nodes)
        self.stats = MachineStats()
        """Statistics of what machines do, beside what they report."""
        self.incidents = Incidents()
        self._ahead: dict[AttemptId, str] = {}
        """The machine of each attempt whose claim was granted ahead, as reported last."""
        self._begun_wall_s: dict[AttemptId, float] = {}
        """The start of each running attempt; after a restart their nodes report it again."""
        self.inside = UseInside()
        """What tasks of jobs inside reservations use of these."""
        self._undecided: dict[AttemptId, float] = {}
        """When the home's count ends for each attempt whose machines hold its seats, in order."""

    def started_wall_s(self, attempt: AttemptId) -> float | None:
        """Return when the process of a running attempt began; None: it is not known to run."""
        return self._begun_wall_s.get(attempt)

    def explain_ahead(self, attempt: AttemptId) -> Reason | None:
        """Return why an attempt with a claim has not started: its claim was granted ahead."""
        return waits_for_place(self._ahead[attempt]) if attempt in self._ahead else None

    def begin(self, job: JobState, match: Match, now: Instant) -> None:
        """Start the first waiting task of a job on the machines of the match, which suits it."""
        number, seats, is_own = job.number, match.seats, not match.broker
        index, (machine, capability, ranks) = job.first_waiting(), seats[0]
        attempt = AttemptId(self._home, number, index, job.next_attempt(index))
        if ranks == 1 == len(seats):
            self._requests.bound(attempt, machine, capability, is_own=is_own)
            job.attempted(index, attempt.attempt, machine)
            self._log.add(number, Attempted(((index, attempt.attempt),), machine))
            self.nodes.run(attempt, job, machine, capability, now.steady_s)
            return
        self._requests.bound(attempt, *self._known_by(seats), is_own=is_own)
        places = tuple(SeatPlace(each.machine, each.ranks) for each in seats)
        job.attempted(index, attempt.attempt, machine, places)
        self._log.add(number, Attempted(((index, attempt.attempt),), machine, places))
        parallel = job.tasks[index].parallel
        assert parallel is not None
        if not parallel.is_decided:
            parallel.is_start_sent = False
            self._undecided[attempt] = now.steady_s + HOLD_S * HOLD_PART
        self.nodes.run_seats(attempt, job, seats, now.steady_s)

    def suits(self, job: JobState, match: Match) -> bool:
        """Return whether a task of the job may have the seats of a match."""
        seats, shape = match.seats, job.spec.shape
        if shape == ONE:
            return len(seats) == 1 and seats[0].ranks == 1
        return has_shape([(each.machine, each.ranks) for each in seats], shape)

    def is_bound(self, match: Match) -> bool:
        """Return whether a match came before, and its claim is still in progress."""
        machine, capability, _ = match.seats[0]
        if len(match.seats) > 1:
            machine, capability = self._known_by(match.seats)
        if machine == self._home:  # within a machine no message comes twice
            return False
        bound = self._requests.bound_to(machine, capability)
        return bound is not None and self.nodes.is_current(bound)

    def _known_by(self, seats: SeatOffers) -> tuple[str, Capability]:
        """Return the machine and capability by which a match is known again."""
        away = (each for each in seats if each.machine != self._home)
        return next(away, seats[0])[:2]

    def rejoin(self, now: Instant) -> None:
        """After a restart: give up what was not decided, ask again for what was."""
        for job in list(self._jobs.values()):
            for index, task in list(job.tasks.items()):
                if task.state is TaskState.QUEUED or task.is_decided:
                    continue
                attempt = AttemptId(self._home, job.number, index, task.attempt)
                needed = "a decision of its home, which restarted before it had made one"
                self._abort(job, attempt, Reason(Rule.SEATS_NOT_HELD, needed, "none is stored"))
        self.nodes.rejoin(now.steady_s)

    # --- reports of nodes ------------------------------------------------------------------------

    def accepted(self, accepted: Accepted, now: Instant) -> None:
        """Handle a granted claim, or its next phase; `Begun` reports the start of the process."""
        job = self.nodes.current(accepted.attempt)
        if not self._may_report(accepted.machine, accepted.attempt, job):
            return
        self.nodes.reported(accepted.attempt, accepted.machine, job)
        if job is not None and accepted.is_ahead:
            self._ahead[accepted.attempt] = accepted.machine
        else:  # it does not wait for a place, or no longer
            self._ahead.pop(accepted.attempt, None)
        task = None if job is None else job.tasks[accepted.attempt.index]
        if job is not None and task is not None and task.parallel is not None:
            self._answered(job, task, task.parallel, accepted, now)

    def _answered(
        self,
        job: JobState,
        task: ActiveTask,
        parallel: ParallelAttempt,
        accepted: Accepted,
        now: Instant,
    ) -> None:
        """Go on with an attempt with several ranks when all its machines have come so far."""
        before, attempt = parallel.phase, accepted.attempt.seat(0)
        parallel.answered(accepted.attempt.rank, accepted.phase, accepted.port)
        if task.stopping or parallel.is_ending:
            return
        if not parallel.is_decided:
            if parallel.is_held and now.steady_s < self._undecided[attempt]:
                del self._undecided[attempt]
                self._log.apply(job, Decided(((attempt.index, attempt.attempt),)))
                self.nodes.decided(attempt, job, now.steady_s)
        elif not self._start(job, attempt, before) and accepted.phase < before:
            self.nodes.run_one_again(accepted.attempt, job)  # it has not heard how far it may go

    def _start(self, job: JobState, attempt: AttemptId, before: Phase) -> bool:
        """Send all machines the start if they have all confirmed, which they had not `before`."""
        task = job.tasks[attempt.index]
        parallel = task.parallel
        if parallel is None or parallel.phase is before or task.stopping or parallel.is_ending:
            return False
        parallel.is_start_sent = True
        self.nodes.run_again(attempt, job)
        return True

    def refused(self, refusal: Refusal, now: Instant) -> None:
        """Queue the task again: the node refused its claim."""
        job = self.nodes.current(refusal.attempt)
        attempt, reason = refusal.attempt, refusal.reason
        if job is None or not self._may_report(reason.machine, attempt, job):
            return
        self.stats.refused(reason)
        parallel = job.tasks[attempt.index].parallel
        if parallel is None or len(parallel.places) == 1:
            self._end(job, attempt, EndCause.REFUSED, None, None, refusal=reason)
        elif not parallel.is_start_sent:
            self._abort(job, attempt.seat(0), reason)
        else:
            over = (now.wall_s, now.wall_s, 0.0, 0.0)
            refused = (EndCause.REFUSED, None, None, Usage(), *over, str(reason))
            self._seat_over(job, AttemptResult(attempt, reason.machine, *refused))

    def begun(self, begun: Begun, now: Instant) -> None:
        """Note that the process of an attempt started."""
        job = self.nodes.current(begun.attempt)
        if not self._may_report(begun.machine, begun.attempt, job):
            return
        self.nodes.reported(begun.attempt, begun.machine, job)
        if job is None:
            return
        self._ahead.pop(begun.attempt, None)
        _, number, index, attempt, *_ = begun.attempt
        self._begun_wall_s.setdefault(begun.attempt.seat(0), begun.started_wall_s)
        parallel = job.tasks[index].parallel
        if parallel is not None:
            before = parallel.phase
            parallel.has_begun()
            parallel.has_first |= not begun.attempt.rank
            self._start(job, begun.attempt.seat(0), before)
        if job.tasks[index].state is TaskState.CLAIMED:
            self.stats.begun += 1
            job.started(index, attempt)
            self._log.add(number, Started(((index, attempt),)))
        if begun.is_used is not None:
            self.inside.begun(begun, job.spec, now)

    def suspended(self, suspended: Suspended, _now: Instant) -> None:
        """Note for which reasons a seat does not run at present."""
        job = self.nodes.current(suspended.attempt)
        if not self._may_report(suspended.machine, suspended.attempt, job):
            return
        self.nodes.reported(suspended.attempt, suspended.machine, job)
        if job is not None:
            self.suspensions.told(job, suspended)

    def ended(self, end: End, _now: Instant) -> None:
        """Handle the end of an attempt and its result."""
        result = end.result
        attempt = result.attempt
        job = self.nodes.current(attempt)
        if not self._may_report(result.machine, attempt, job):
            return
        self.nodes.acknowledge(attempt, result.machine)
        if job is None:  # repeated, or of a replaced attempt: the first result stands
            return
        task = job.tasks[attempt.index]
        if result.elapsed_s > 0.0 and task.state is TaskState.CLAIMED:
            self.stats.begun += 1  # the end of a short task tells its start
        if job.spec.reservation is not None:
            self.inside.ended(end, task.spec or job.spec, task.ranks_of(attempt.rank))
        if task.parallel is None:
            self.stats.ended(result, job.spec)
            self._effects.append(Persist(result))
            self._end(job, attempt, result.cause, result.exit_code, result.signal)
            return
        self.stats.ended(result, job.spec, task.parallel.place(attempt.rank).ranks)
        if task.parallel.is_start_sent or len(task.parallel.places) == 1:
            self._seat_over(job, result)
        else:
            self._abort(job, attempt.seat(0), _not_held(attempt, result))

    def renew(self, renew: Renew, now: Instant) -> None:
        """Renew the leases of the attempts that a node has from this home."""
        current = self.nodes.current
        own = tuple(a for a in renew.unconfirmed if self._may_report(renew.machine, a, current(a)))
        self.nodes.renew(replace(renew, unconfirmed=own), now.steady_s)

    def link_up(self, event: LinkUp, _now: Instant) -> None:
        """Resume the exchange with a machine that can be reached again."""
        self.nodes.reached(event.machine)
        self.steps.reached(event.machine)

    def step_begun(self, begun: StepBegun, _now: Instant) -> None:
        """Note that a job step runs."""
        if not self.steps.begun(begun):
            given = self.steps.machine_of(begun.attempt)
            self._not_its_own(begun.machine, begun.attempt, given)

    def step_ended(self, end: StepEnded, _now: Instant) -> None:
        """Note how a job step ended."""
        if not self.steps.ended(end):
            self._not_its_own(end.machine, end.attempt, self.steps.machine_of(end.attempt))

    def give_up_unheard(self, now: Instant) -> None:
        """End, as lost, the attempts whose lease expired without contact."""
        for machine, attempt in self.nodes.leases.over(now.steady_s):
            job = self.nodes.current(attempt)
            if job is None:  # it ended with another of its seats, a moment ago
                continue
            result = lost_result(attempt, machine, job.spec, now.wall_s)
            parallel = job.tasks[attempt.index].parallel
            if parallel is None:
                self._effects.append(Persist(result))
                self._end(job, attempt, EndCause.LOST, None, None)
            elif parallel.is_start_sent:
                self._seat_over(job, result)
            else:
                self._abort(job, attempt.seat(0), _not_held(attempt, result))

    @property
    def next_s(self) -> float | None:
        """Return when a lease, or the time to decide, may next be over; None: there is none."""
        held_s = next(iter(self._undecided.values()), None)
        leased_s = self.nodes.leases.next_s
        if held_s is None or leased_s is None:
            return leased_s if held_s is None else held_s
        return min(held_s, leased_s)

    def give_up_undecided(self, now: Instant) -> None:
        """Free what machines hold for attempts that cannot be decided any more."""
        for attempt, until_s in list(self._undecided.items()):
            if until_s > now.steady_s:  # all are held for equally long
                return
            job = self._jobs[attempt.number]
            parallel = job.tasks[attempt.index].parallel
            assert parallel is not None
            silent = parallel.unanswered
            more = f" and {len(silent) - NAMED_MAX} more" if len(silent) > NAMED_MAX else ""
            needed = f"the answers of all {len(parallel.places)} machines within {HOLD_S:g} s"
            had = f"none of {', '.join(silent[:NAMED_MAX])}{more}" if silent else "it was cancelled"
            self._abort(job, attempt, Reason(Rule.SEATS_NOT_HELD, needed, had))

    def _may_report(self, machine: str, attempt: AttemptId, job: JobState | None) -> bool:
        """Return whether the machine may report on the attempt: it has it, or that is over.

        `job` is the attempt's if that is current.
        """
        if job is None:
            return True
        task = job.tasks[attempt.index]
        given = task.machine if task.parallel is None else task.machine_of(attempt.rank)
        if given == machine:
            return True
        self._not_its_own(machine, attempt, given)
        return False

    def _not_its_own(self, machine: str, attempt: AttemptId, given: str) -> None:
        self.incidents.note("not-its-own", machine, f"it spoke of {attempt}, which {given} has")

    def _abort(self, job: JobState, attempt: AttemptId, why: Reason) -> None:
        """End an attempt of which nothing has started: its machines free what they hold."""
        self._undecided.pop(attempt, None)
        self.nodes.stop_seats(attempt, job, 0.0)
        self._end(job, attempt, EndCause.REFUSED, None, None, refusal=why)

    def _seat_over(self, job: JobState, result: AttemptResult) -> None:
        """Note the end of a seat: it may decide how its attempt ends, or be the last."""
        attempt = result.attempt
        self.nodes.ended(attempt, result.machine)
        parallel = job.tasks[attempt.index].parallel
        assert parallel is not None
        before, was_ending = parallel.phase, parallel.is_ending
        ranks = parallel.place(attempt.rank).ranks
        self._log.apply(job, SeatEnded(((result, ranks),)))
        whole = attempt.seat(0)
        if parallel.is_over:
            self._effects.append(Persist(parallel.ends.result(whole, parallel.places[0].machine)))
            end = parallel.ends.end
            self._end(job, whole, end.cause, end.exit_code, end.signal)
        elif parallel.is_ending and not was_ending:
            self.nodes.stop_seats(whole, job)
        else:
            self._start(job, whole, before)

    def _end(
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
        if job.spec.reservation is not None:
            self.inside.over(attempt)
        task = job.tasks[index]
        if task.parallel is not None:
            for rank, machine in task.seats():
                self.nodes.ended(attempt.seat(rank), machine)
        elif task.machine != self._home:
            self.nodes.ended(attempt, task.machine)
        if self.steps.live:
            self.steps.attempt_over(attempt)
        final = job.ended(index, attempt.attempt, cause, exit_code, signal)
        end = (index, attempt.attempt, cause, exit_code, signal)
        self._log.add(job.number, Ended((end,), (refusal,) if refusal else ()))
        if index in job.tasks or (job.spec.throttle is not None and job.waiting):
            self._requests.changed(job.number)
        if final is not None:
            self._completion.task_ended(job, index, final)
        self._completion.finish_if_over(job)


def _not_held(attempt: AttemptId, result: AttemptResult) -> Reason:
    """Return why an attempt is given up of which this seat ended before it started."""
    needed = "all its machines until it starts"
    had = f"{attempt} ended there: {result.message or result.cause}"
    return Reason(Rule.SEATS_NOT_HELD, needed, had, result.machine)

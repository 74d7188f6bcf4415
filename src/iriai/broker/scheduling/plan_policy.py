"""Drives a policy that plans all starts; checks each of its decisions.

See `policy.placement.policy_api`. An invalid decision changes nothing: it is refused with the
policy's file and line, and the pass ends; earlier decisions stand. The built-in order goes on from
there, and the policy is asked again after a pause.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite
from typing import TYPE_CHECKING

from iriai.broker.queue.entries import QueuedJob
from iriai.broker.scheduling.plan_decisions import DecisionJudge
from iriai.broker.scheduling.plan_view import PlanView, ViewedMachine, ViewedMachines
from iriai.broker.scheduling.promised_places import PromisedPlaces
from iriai.broker.scheduling.resumptions import resume, tolerated_by_plans, vacate
from iriai.broker.scheduling.scheduling_pass import PassResult
from iriai.broker.scheduling.task_starts import Decision
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.job_proposals import JobProposals
from iriai.broker.state.queue_order import in_order
from iriai.broker.state.state import BrokerState
from iriai.model.backoff import Backoff
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.policy.placement.conservative import Conservative
from iriai.policy.placement.job_decisions import ACTIONS, JobDecision
from iriai.policy.placement.policy_api import PlannedStart, PlanSource, Start
from iriai.policy.placement.seats import Seats
from iriai.policy.policy_error import Mistake, PolicyError
from iriai.protocol.messages.effects import Effect, Part, PolicyFailed, Send
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.protocol.messages.scheduling import Promise

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import HeldSpan

DECISIONS_MAX = 100_000
"""Decisions of one pass. A policy with more of them is in a loop."""
PAUSE_S, PAUSE_MAX_S = 10.0, 300.0
"""After a mistake the built-in order decides for so long; each further mistake in a row doubles it.
Shorter: two orders take turns, and neither keeps what the other promised for long."""


def planning_of(state: BrokerState) -> PlanDriver:
    """Return the planner of a broker whose settings say `is_planned`."""
    return PlanDriver(state, state.settings.plan or PlanSource(Conservative(), ""))


class PolicyPause(Backoff):
    """The time in which the built-in order decides, after mistakes of the policy."""

    __slots__ = ("failures",)

    def __init__(self) -> None:
        super().__init__(PAUSE_S, PAUSE_MAX_S)
        self.failures = 0
        """In a row."""

    def erred(self, now_s: float) -> None:
        """Begin a pause."""
        self._begin(self.failures, now_s)
        self.failures += 1


class PlanDriver:
    """Calls the policy; lives as long as the broker."""

    def __init__(self, state: BrokerState, source: PlanSource) -> None:
        self._state = state
        self._source = source
        self.mistake: PolicyError | None = None
        """The error of the last pass that the policy decided, if it ended with one."""
        self.promised: dict[JobId, PlannedStart] = {}
        """Promised starts that homes know."""
        self._own: dict[JobId, None] = {}
        """Jobs to which the policy itself had promised a start before the pause."""
        self._places = PromisedPlaces(state, self.promised)
        self.proposals = JobProposals(state)
        self.machines = ViewedMachines(state, self._places, self.proposals, is_own=not source.path)
        self.term = 0.0
        """Of the broker; 0: it is not elected."""
        self._judge = DecisionJudge(state, self._places)
        self._pause = PolicyPause()
        self._effects: list[Effect] = []

    @property
    def is_paused(self) -> bool:
        """Return whether the built-in order decides at present."""
        return self._pause.until_s is not None

    def may_resume(self, now_s: float) -> bool:
        """End the pause if it is over now: the places of reserved heads become promises.

        Those that the policy had not given itself lapse unless its next pass renews them.
        """
        if not self._pause.is_over(now_s):
            return False
        heads = self._state.heads
        for planned in heads.planned():
            self.promised[planned.job] = planned
            if planned.job not in self._own:
                self._places.inherited[planned.job] = None
        self._own.clear()
        heads.withdraw_absent(())
        heads.aside.clear()
        return True

    def drain_effects(self) -> list[Effect]:
        """Return what is to be told of mistakes since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def restore(self, job: JobId, machine: str, start_s: float) -> None:
        """Promises of an earlier broker."""
        if self.is_paused:
            self._state.heads.restore(self._state.queues.entries[job].want, machine, start_s)
        else:
            self.promised[job] = PlannedStart(job, machine, start_s)

    def kept(self, now_s: float, beside: Resources | None) -> dict[str, list[HeldSpan]]:
        """Return what is planned to run on each machine, as far as it is known.

        `beside` is what is to be booked (None: all); what has to leave for that only has to start.
        """
        from iriai.policy.placement.bookings import HeldSpan

        policy = self._source.policy
        places: dict[str, list[HeldSpan]] = {}
        if isinstance(policy, Conservative):
            views = self._state.machines.values()
            machines = {
                each.name: ViewedMachine(each, now_s, self._state)
                for each in views
                if each.is_available
            }
            for job, seats, start_s in policy.bound(machines, now_s):
                for name, ranks in seats:
                    taken, capacity = job.resources.times(ranks), machines[name].capacity
                    leaves = not taken.plus(beside or capacity).fits_in(capacity)
                    stay_s = job.needed_s if leaves else job.stay_s
                    end_s = inf if stay_s is None else start_s + stay_s
                    places.setdefault(name, []).append(HeldSpan(start_s, end_s, taken))
            return places
        for name, view in self._state.machines.items():
            spans = [span for _, span in self._places.of(view, now_s)] if self.promised else []
            if spans:
                places[name] = spans
        return places

    @property
    def wake_s(self) -> float | None:
        """Return the latest time for the next call of the policy, on the steady clock."""
        if self._pause.until_s is not None:
            return self._pause.until_s
        asked: object = getattr(self._source.policy, "wake_s", None)
        wake_s = float(asked) if isinstance(asked, int | float) and isfinite(asked) else None
        again_s = self.proposals.next_s if self.proposals.asked else None
        if wake_s is None or again_s is None:
            return again_s if wake_s is None else wake_s
        return min(wake_s, again_s)

    def run(self, decision_rng: DecisionRng, now: Instant) -> PassResult:
        """Decide which tasks start, and where; the claims are made in the view of the machines."""
        outcome = PassResult([], [], self._suspended(now.steady_s))
        self.mistake = None
        decision_rng.begin()
        self._state.tick(now.wall_s)
        if self._source.path:
            self.proposals.lapse(now.steady_s)
        if self._state.placement.has_booked_room:
            self._start_inside(decision_rng, now, outcome)
            decision_rng.begin()
        try:
            self._follow(decision_rng, now, outcome)
        except PolicyError as mistake:
            self.mistake = mistake
        except Exception as error:
            if not self._source.path:
                raise
            self.mistake = PolicyError.of(self._source.path, error)
        if self.mistake is not None and self._source.path:
            self._give_way(self.mistake, now.steady_s)
        else:
            self._pause.failures = 0
            self._let_lapse(outcome)
            self._state.index.nothing_left()
        decision_rng.decided(len(outcome.decisions) + len(outcome.promises))
        return outcome

    def _let_lapse(self, outcome: PassResult) -> None:
        """Take back what the built-in order had promised, and the policy did not renew."""
        for job in self._places.inherited:
            if self.promised.pop(job, None) is not None and job in self._state.queues.entries:
                outcome.promises.append(Promise(job, "", None))
        self._places.inherited.clear()

    def _give_way(self, mistake: PolicyError, now_s: float) -> None:
        """Let the built-in order decide for a while, which keeps what was promised if it can."""
        self._pause.erred(now_s)
        self._effects.append(PolicyFailed(mistake.one_line))
        state, promised = self._state, list(self.promised.values())
        inherited = self._places.inherited
        self._own = {each.job: None for each in promised if each.job not in inherited}
        self.promised.clear()
        inherited.clear()
        for promise in promised:
            entry = state.queues.entries.get(promise.job)
            if entry is not None and promise.start_s is not None:
                state.heads.restore(entry.want, promise.machine, promise.start_s)
        for view in state.machines.values():
            state.index.grew(view)  # it has looked at none

    def explain(self, job: JobId, reasons: list[Reason], now: Instant) -> list[Reason]:
        """Return why a job waits; `reasons` are those of the machines; the main one first."""
        promise = self.promised.get(job)
        entry = self._state.queues.entries.get(job)
        if entry is not None and entry.want.reservation is not None:
            return reasons
        if self.mistake is not None:
            had = self.mistake.one_line
            if self._pause.until_s is not None:
                left_s = max(0.0, self._pause.until_s - now.steady_s)
                had += f" (the built-in order goes on for {left_s:.0f} s)"
            main = Reason(Rule.POLICY, "a policy without errors", had)
        elif promise is not None and promise.start_s is not None:
            in_s = max(0.0, promise.start_s - now.steady_s)
            had = f"it starts in {in_s:.0f} s at the latest"
            main = Reason(Rule.RESERVED, "its resources to become free", had, promise.machine)
        else:
            main = Reason(Rule.POLICY, "the policy to start it", "it has not started it yet")
        return [main, *(reason for reason in reasons if reason.rule is not Rule.STARTING)]

    def _suspended(self, now_s: float) -> list[Send]:
        """Return the orders about suspended claims, which come before what the policy starts."""
        state, promised = self._state, list(self.promised.values())
        if not state.suspended.claims:
            return []
        tolerates = tolerated_by_plans(promised, now_s)
        orders = [each.order for each in resume(state, now_s, tolerates)]
        return orders + vacate(state, now_s, promised)

    def _follow(self, decision_rng: DecisionRng, now: Instant, outcome: PassResult) -> None:
        view = PlanView(self.machines, decision_rng, now)
        decisions: object = self._source.policy.plan(view, now)
        if not isinstance(decisions, Iterable):
            what = f"plan returned {decisions!r:.60}, which is not iterable"
            raise PolicyError(self._source.path, what, "return a list of decisions, or yield them")
        for number, decision in enumerate(decisions):
            if number == DECISIONS_MAX:
                what = f"more than {DECISIONS_MAX:,} decisions at once"
                raise self._mistake(
                    decisions, Mistake(what, "end plan, and go on when asked again")
                )
            wrong: Mistake | None
            if isinstance(decision, Start):
                wrong = self._start(decision, now, outcome)
            elif isinstance(decision, PlannedStart):
                wrong = self._promise(decision, now, outcome)
            elif type(decision) in ACTIONS:
                wrong = self._change(decision, now)
            else:
                what = f"{decision!r:.60} is not a decision; use those of iriai.policy.api"
                wrong = Mistake(what, "Start(job.id, machine.name)")
            if wrong is not None:
                raise self._mistake(decisions, wrong)

    def _start_inside(self, decision_rng: DecisionRng, now: Instant, outcome: PassResult) -> None:
        """Start tasks in open reservations, of which no policy knows, in their order."""
        state, inside = self._state, self._state.placement.inside
        for entry in in_order(state, decision_rng, now):
            while entry.count and entry.want.reservation is not None:
                allowed = state.running_cap(entry).allowed
                seats = inside.seats(entry.kind, now.steady_s) if allowed else None
                if seats is None:
                    break
                outcome.decisions.append(self._started(entry, seats, now.steady_s))

    def _started(self, entry: QueuedJob, seats: Seats, now_s: float) -> Decision:
        matched = self._state.start(entry, seats, now_s)
        for each in matched:
            self._state.index.changed(each.view)
        return Decision(entry, matched)

    def _start(self, start: Start, now: Instant, outcome: PassResult) -> Mistake | None:
        """Carry out a start; return what is wrong with it."""
        if self.proposals.asked and isinstance(start.job, JobId):
            action = self.proposals.keeps_back(start.job)
            if action:
                return Mistake(f"{start.job} does not start after {action}", "one of both")
        judged = self._judge.start(start, now.steady_s, is_own=not self._source.path)
        if isinstance(judged, Mistake):
            return judged
        outcome.decisions.append(self._started(*judged, now.steady_s))
        self.promised.pop(start.job, None)
        return None

    def _change(self, decision: JobDecision, now: Instant) -> Mistake | None:
        """Propose a change of a job to its home; return what is wrong with it."""
        proposed = self.proposals.propose(decision, self._source.name, self.term, now)
        if isinstance(proposed, Mistake):
            return proposed
        if isinstance(proposed, Propose):
            self._effects.append(Send(proposed.job.home, Part.HOME, proposed))
        return None

    def answered(self, answer: Proposed, now: Instant) -> bool:
        """Note what a home made of a proposal; return whether the policy may decide otherwise."""
        refused = self.proposals.answered(answer, now.steady_s)
        if refused:
            self._effects.append(PolicyFailed(f"{self._source.path}: {answer.job}: {refused}"))
        return bool(answer.refusal)

    def _promise(self, promise: PlannedStart, now: Instant, outcome: PassResult) -> Mistake | None:
        """Carry out a promise; return what is wrong with it."""
        wrong = self._judge.promise(promise, now.steady_s, is_own=not self._source.path)
        if wrong is not None:
            return wrong
        self._places.inherited.pop(promise.job, None)
        if self._source.path and self._is_known(promise, now.steady_s):
            return None
        in_s: float | None = None
        if promise.start_s is None:
            self.promised.pop(promise.job, None)
        else:
            self.promised[promise.job] = promise
            in_s = max(0.0, promise.start_s - now.steady_s)
        machine = promise.machine
        if promise.seats and not machine and len(promise.seats) == 1:
            machine = promise.seats[0][0]
        outcome.promises.append(Promise(promise.job, machine, in_s, promise.pool))
        return None

    def _is_known(self, promise: PlannedStart, now_s: float) -> bool:
        """Return whether its home knows it: one that is due is not put off to this moment."""
        known = self.promised.get(promise.job)
        if known is None or known.start_s is None or promise.start_s is None:
            return False
        is_due = known.start_s <= promise.start_s <= now_s
        return known == (promise._replace(start_s=known.start_s) if is_due else promise)

    def _mistake(self, decisions: object, wrong: Mistake) -> PolicyError:
        """Add the line at which the generator stopped, which is that of its decision."""
        frame = getattr(decisions, "gi_frame", None)
        line = f", line {frame.f_lineno}" if frame is not None else ""
        return PolicyError(f"{self._source.path or 'a policy'}{line}", wrong.what, wrong.nearest)

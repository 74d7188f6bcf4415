"""Drives a policy that plans all starts; checks each of its decisions.

See `policy.placement.policy_api`. An invalid decision changes nothing: it is refused with the
policy's file and line, and the pass ends; earlier decisions stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, isfinite
from typing import TYPE_CHECKING

from iriai.broker.machines.beside_bookings import is_beside
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import QueuedJob, TaskClass
from iriai.broker.scheduling.resumptions import resume, tolerated_by_plans, vacate
from iriai.broker.scheduling.scheduling_pass import PassResult
from iriai.broker.scheduling.task_starts import Decision
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.queue_order import in_order
from iriai.broker.state.reserved_heads import could_hold, has_capacity, kept_for
from iriai.broker.state.state import BrokerState
from iriai.config.values import is_name
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.ranks import has_shape
from iriai.model.reason import Reason, Rule
from iriai.model.resources import FIELDS, NOTHING, Resources
from iriai.policy.placement.conservative import CONSERVATIVE, Conservative
from iriai.policy.placement.policy_api import (
    Claimed,
    PlannedMachine,
    PlannedStart,
    PlanSource,
    Start,
    WaitingJob,
    anywhere,
)
from iriai.policy.placement.seats import Seat, Seats, rank_fit
from iriai.policy.policy_error import PolicyError
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.scheduling import Promise

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import HeldSpan

DECISIONS_MAX = 100_000
"""Decisions of one pass. A policy with more of them is in a loop."""
SHOWN_MAX = 4
"""Seats in the message about those that are not what a job asks for."""


def planning_of(state: BrokerState) -> PlanDriver | None:
    """Return the planner if the settings name a policy file; None: the pass decides, with draws."""
    settings = state.settings
    if settings.plan is not None:
        return PlanDriver(state, settings.plan)
    if settings.configuration.order.backfill == CONSERVATIVE:
        return PlanDriver(state, PlanSource(Conservative(), ""))
    return None


class PlanDriver:
    """Calls the policy; lives as long as the broker."""

    def __init__(self, state: BrokerState, source: PlanSource) -> None:
        self._state = state
        self._source = source
        self.mistake: PolicyError | None = None
        """The error of the last pass, if it ended with one."""
        self.promised: dict[JobId, PlannedStart] = {}
        """Promised starts that homes know."""

    def restore(self, job: JobId, machine: str, start_s: float) -> None:
        """Promises of an earlier broker."""
        self.promised[job] = PlannedStart(job, machine, start_s)

    def kept(self, now_s: float, beside: Resources | None) -> dict[str, list[HeldSpan]]:
        """Return what is planned to run on each machine, as far as it is known.

        `beside` is what is to be booked (None: all); what has to leave for that only has to start.
        """
        from iriai.policy.placement.bookings import HeldSpan

        policy, waiting = self._source.policy, self._state.queues.entries
        places: dict[str, list[HeldSpan]] = {}
        if isinstance(policy, Conservative):
            views = self._state.machines.values()
            machines = {each.name: _Machine(each, now_s) for each in views if each.is_available}
            for job, seats, start_s in policy.bound(machines, now_s):
                for name, ranks in seats:
                    taken, capacity = job.resources.times(ranks), machines[name].capacity
                    leaves = not taken.plus(beside or capacity).fits_in(capacity)
                    stay_s = job.needed_s if leaves else job.stay_s
                    end_s = inf if stay_s is None else start_s + stay_s
                    places.setdefault(name, []).append(HeldSpan(start_s, end_s, taken))
            return places
        for promise in self.promised.values():
            entry = waiting.get(promise.job)
            if entry is None or promise.start_s is None or not promise.machine:
                continue
            planned_s = entry.kind.planned_s
            end_s = promise.start_s + (inf if planned_s is None else planned_s)
            held = HeldSpan(promise.start_s, end_s, entry.want.resources)
            places.setdefault(promise.machine, []).append(held)
        return places

    @property
    def wake_s(self) -> float | None:
        """Return the latest time for the next call of the policy, on the steady clock."""
        wake_s: object = getattr(self._source.policy, "wake_s", None)
        return float(wake_s) if isinstance(wake_s, int | float) and isfinite(wake_s) else None

    def run(self, decision_rng: DecisionRng, now: Instant) -> PassResult:
        """Decide which tasks start, and where; the claims are made in the view of the machines."""
        outcome = PassResult([], [], self._suspended(now.steady_s))
        self.mistake = None
        decision_rng.begin()
        self._state.tick(now.wall_s)
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
        self._state.index.nothing_left()
        decision_rng.decided(len(outcome.decisions) + len(outcome.promises))
        return outcome

    def explain(self, job: JobId, reasons: list[Reason], now: Instant) -> list[Reason]:
        """Return why a job waits; `reasons` are those of the machines; the main one first."""
        promise = self.promised.get(job)
        entry = self._state.queues.entries.get(job)
        if entry is not None and entry.want.reservation is not None:
            return reasons
        if self.mistake is not None:
            main = Reason(Rule.POLICY, "a policy without errors", self.mistake.message)
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
        view = _View(self._state, self.promised, decision_rng, now)
        decisions: Iterable[object] = self._source.policy.plan(view, now)
        for number, decision in enumerate(decisions):
            if number == DECISIONS_MAX:
                raise self._mistake(decisions, f"more than {DECISIONS_MAX:,} decisions at once")
            if isinstance(decision, Start):
                what = self._start(decision, now, outcome)
            elif isinstance(decision, PlannedStart):
                what = self._promise(decision, now, outcome)
            else:
                what = f"{decision!r:.60} is not a decision; use Start and PlannedStart"
            if what:
                raise self._mistake(decisions, what)

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

    def _start(self, start: Start, now: Instant, outcome: PassResult) -> str:
        """Carry out a start; return what is wrong with it, or an empty text."""
        state = self._state
        entry = state.queues.entries.get(start.job)
        if entry is None:
            return f"no job {_name(start.job)} is waiting"
        seats = start.seats or (Seat(start.machine, 1),)
        wrong = self._wrong_shape(entry.kind, seats)
        if wrong:
            return f"{_name(start.job)}: {wrong}"
        for seat in seats:
            view = state.machines.get(seat.machine)
            if view is None:
                return f"there is no machine {seat.machine!r:.60}"
            if not could_hold(entry.kind, view):
                return f"{_name(start.job)} and {view.name} do not match: see iriai why {start.job}"
            needed = kept_for(entry.kind, view, seat.ranks)
            has_room = has_capacity(view, entry.kind, now.steady_s)
            if seat.ranks > 1 and view.calendar.bookings:
                has_room &= is_beside(view.calendar, entry.kind.key, needed, now.steady_s)
            if not (has_room and needed.fits_in(view.calendar.free)):
                had = f"{view.name} has {_amount(_free(view))} free"
                if view.calendar.bookings:
                    had += ", and reservations (see PlannedMachine.fit)"
                return f"{_name(start.job)} needs {_amount(needed)}; {had}"
        cap = state.running_cap(entry)
        if not cap.allowed:
            return f"{_name(start.job)}: {cap.reason()}"
        outcome.decisions.append(self._started(entry, seats, now.steady_s))
        self.promised.pop(start.job, None)
        return ""

    def _wrong_shape(self, kind: TaskClass, seats: Seats) -> str:
        """Return what is wrong with the seats of a task, or an empty text."""
        if not has_shape(seats, kind.key.shape):
            ranks = ", ".join(f"{seat.ranks} on {seat.machine!r:.60}" for seat in seats[:SHOWN_MAX])
            return f"it asks for {kind.key.shape.words()}, not for {ranks or 'none'}"
        machines = self._state.machines
        pools = {machines[seat.machine].pool for seat in seats if seat.machine in machines}
        if len(pools) > 1 and not kind.key.across_pools:
            return "it asks for machines of one pool"
        return ""

    def _promise(self, promise: PlannedStart, now: Instant, outcome: PassResult) -> str:
        """Carry out a promise; return what is wrong with it, or an empty text."""
        if promise.job not in self._state.queues.entries:
            return f"no job {_name(promise.job)} is waiting"
        if promise.machine and promise.machine not in self._state.machines:
            return f"there is no machine {promise.machine!r:.60}"
        pool: object = promise.pool
        if pool != "" and not (isinstance(pool, str) and is_name(pool)):
            return f"{promise.pool!r:.60} is no name of a pool"
        start_s: object = promise.start_s
        in_s: float | None = None
        if start_s is None:
            self.promised.pop(promise.job, None)
        elif isinstance(start_s, int | float) and isfinite(start_s):
            self.promised[promise.job] = promise
            in_s = max(0.0, start_s - now.steady_s)
        else:
            return f"{start_s!r:.60} is not a time"
        outcome.promises.append(Promise(promise.job, promise.machine, in_s, promise.pool))
        return ""

    def _mistake(self, decisions: object, what: str) -> PolicyError:
        """Add the line at which the generator stopped, which is that of its decision."""
        frame = getattr(decisions, "gi_frame", None)
        line = f", line {frame.f_lineno}" if frame is not None else ""
        return PolicyError(f"{self._source.path or 'a policy'}{line}", what)


def _name(job: object) -> str:
    return str(job) if isinstance(job, JobId) else f"{job!r:.60}"


def _amount(resources: Resources) -> str:
    return (
        ", ".join(
            f"{getattr(resources, field)} {field}" for field in FIELDS if getattr(resources, field)
        )
        or "nothing"
    )


def _free(view: MachineView) -> Resources:
    return view.calendar.free if view.is_open else NOTHING


class _View:
    """The view that the policy gets; see `policy.placement.policy_api.View`."""

    def __init__(
        self,
        state: BrokerState,
        promised: dict[JobId, PlannedStart],
        decision_rng: DecisionRng,
        now: Instant,
    ) -> None:
        self._state = state
        self._promised = promised
        self._decision_rng = decision_rng
        self._now = now
        self.machines: tuple[PlannedMachine, ...] = tuple(
            _Machine(state.machines[name], now.steady_s)
            for name in sorted(state.machines)
            if state.machines[name].is_available
        )

    def queue(self) -> Iterator[WaitingJob]:
        for entry in in_order(self._state, self._decision_rng, self._now):
            want, kind = entry.want, entry.line.kind
            key = kind.key
            if key.reservation is not None:
                continue  # the broker starts it
            promise = self._promised.get(want.job)
            yield WaitingJob(
                want.job,
                want.account,
                want.resources,
                key.stay_s,
                want.urgency,
                entry.precedence.queued_at_s,
                entry.count,
                None if promise is None else promise.start_s,
                kind.may_run_on if kind.is_choosy else anywhere,
                key.shape,
                key.across_pools,
                kind.planned_s,
            )


class _Machine:
    """A machine in the view; see `policy.placement.policy_api.PlannedMachine`."""

    __slots__ = ("_now_s", "_view")

    def __init__(self, view: MachineView, now_s: float) -> None:
        self._view = view
        self._now_s = now_s

    @property
    def name(self) -> str:
        return self._view.name

    @property
    def pool(self) -> str:
        return self._view.pool

    @property
    def capacity(self) -> Resources:
        return self._view.calendar.capacity

    @property
    def free(self) -> Resources:
        return _free(self._view)

    @property
    def ended(self) -> int:
        return self._view.ended

    def claimed(self) -> Iterator[Claimed]:
        calendar = self._view.calendar
        for key, resources, end_s in calendar.in_order():
            if not calendar.bookings or calendar.inside(key) is None:
                yield Claimed(resources, end_s)

    def booked(self) -> Iterator[Claimed]:
        for booked in self._view.calendar.bookings:
            yield Claimed(booked.resources, booked.end_s, booked.from_s)

    def fit(self, job: WaitingJob) -> int:
        calendar = self._view.calendar
        ranks = rank_fit(job.resources, self.free)
        if calendar.bookings:
            while ranks:
                taken = job.resources.times(ranks)
                if calendar.fits(taken, self._now_s, job.needed_s):
                    break
                ranks -= 1
        return ranks

    def earliest_s(self, resources: Resources) -> float | None:
        slot = self._view.calendar.earliest(resources, self._now_s)
        return None if slot is None else slot.start_s

"""Desks whose owners come and go, and jobs on them, in virtual time.

The broker's own state and passes decide, without messages, as in `iriai.sim.workload.replay`; the
product's own `Presence` says whether a machine is in use, and its `OwnerSteps` what becomes of the
task there. Here are time, owners and progress alone. A desk has one processor and one task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import NamedTuple

from msgspec.structs import replace as changed

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.state import BrokerSettings, BrokerState
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.policy.owner.absence import Absences
from iriai.policy.owner.owner_steps import OwnerStep, OwnerSteps
from iriai.policy.owner.presence import Presence
from iriai.protocol.messages.scheduling import Want
from iriai.sim.world.owner_days import UNUSED_PART, USED_PART, Span, habits_of, visits_of
from iriai.sim.world.rng import Rng

HOUR_S, DAY_S = 3_600.0, 86_400.0
MONDAY_WALL_S = 1_800_230_400.0
SAVES_S = 1_800.0
"""Between two saves of a program that saves itself."""
LEARNT_DAYS = 28
LEARNT_S = LEARNT_DAYS * DAY_S
HOURS = 1.0, 10.0
"""Of a job, from and to."""
ABSENT_PART = 0.84
"""Of all time, about: what `load` is a part of."""
ARRIVAL, LOOK = -1, -1
"""What happens in place of a desk, and of a version."""
WAITING = 40
"""Jobs that wait where work is never short."""
ACCOUNTS = 8
ROUNDING_S = 1e-6
"""What sums of seconds may be wrong by."""
IN_USE = Reason(Rule.OWNER_ACTIVE, "5 min without a sign of its owner", "its owner was seen", "")


class Saving(Enum):
    """When programs save themselves."""

    NEVER = "no_saving"
    REGULARLY = "saving"
    """Each half hour."""
    AND_WHEN_ASKED = "saving_when_asked"
    """And when they are asked to end (SIGTERM)."""


class Hint(Enum):
    """What the broker knows of when owners come back."""

    NOTHING = "nothing"
    EXPECTED = "expected_idle"
    """What machines learnt in four weeks before (`ExpectedIdle`)."""
    TRUTH = "oracle"


class HarvestCase(NamedTuple):
    """What becomes of tasks when owners come, and how much there is to do."""

    steps: OwnerSteps
    saving: Saving = Saving.NEVER
    load: float | None = None
    """Of the time of absent owners, how much the jobs take that come; None: always more."""
    hint: Hint = Hint.NOTHING


@dataclass(slots=True)
class HarvestJob:
    """A job, and how much of it is kept for the next run."""

    number: int
    run_s: float
    limit_s: float
    come_s: float
    kept_s: float = 0.0

    def want(self, *, is_front: bool) -> Want:
        """Return what its home asks for."""
        account = Account("lab", f"user{self.number % ACCOUNTS}")
        limit_s = self.limit_s - self.kept_s
        front = int(is_front)
        job = JobId("log", self.number)
        return Want(job, account, Resources(1), limit_s, 1.0, 0.0, 1, front=front)


@dataclass(slots=True)
class HarvestRun:
    """A run of a job on a desk."""

    job: HarvestJob
    key: ClaimKey
    since_s: float
    """Since when it runs at once."""
    ran_s: float = 0.0
    """Before that, of this run."""
    is_frozen: bool = False
    version: int = 0
    """Of its predicted end, of all runs: others are in the agenda, too."""

    def now_ran_s(self, now_s: float) -> float:
        """Return how long it has run by now."""
        return self.ran_s if self.is_frozen else self.ran_s + now_s - self.since_s

    @property
    def left_s(self) -> float:
        """Return how long it had to run when it went on."""
        return self.job.run_s - self.job.kept_s - self.ran_s


@dataclass(slots=True, eq=False)
class Desk:
    """A machine with an owner."""

    view: MachineView
    visits: list[Span]
    presence: Presence
    absences: Absences
    run: HarvestRun | None = None
    place: int = 0
    """Of the visit that is, or comes next."""
    alarm_s: float = inf


@dataclass(slots=True)
class HarvestTotals:
    """Seconds of all desks."""

    absent_s: float = 0.0
    computed_s: float = 0.0
    lost_s: float = 0.0
    kept_s: float = 0.0
    """Of jobs that are over, and of what is kept for those that are not."""
    evictions: int = 0
    finished: int = 0
    turnarounds_s: list[float] = field(default_factory=list)

    @property
    def harvested(self) -> float:
        """Return which part of the time of absent owners became work that was kept."""
        return (self.computed_s - self.lost_s) / self.absent_s

    @property
    def turnaround_h(self) -> float:
        """Return the mean time from the submission of a job to its end, in hours."""
        return sum(self.turnarounds_s) / len(self.turnarounds_s) / HOUR_S

    @property
    def lost_percent(self) -> float:
        """Return how much of what was computed was lost."""
        return 100.0 * self.lost_s / self.computed_s if self.computed_s else 0.0


class HarvestWorld:
    """Desks, jobs, and what became of them."""

    def __init__(self, case: HarvestCase, desks: int, days: int, seed: int) -> None:
        exact = changed(Configuration().jobs, end_slack_s=0.0, kill_grace_s=0.0)
        configuration = Configuration(jobs=exact)
        order = configuration.order
        named = order_named(order.name, OrderSettings(order.usage_floor_s))
        usage = UsageAccounts(decay_of(order), ChargeRule.of(order))
        self._state = BrokerState(BrokerSettings(configuration, named), usage)
        self._rng = DecisionRng(Random(seed))
        self._jobs_rng = Rng(seed, "jobs")
        self._case = case
        self.totals = HarvestTotals()
        self.until_s = days * DAY_S
        self._agenda: list[tuple[float, int, int]] = []
        """When, of which desk, and of which version of its run; see `_happen`."""
        self._desks: list[Desk] = []
        self._by_key: dict[ClaimKey, Desk] = {}
        self._waiting: dict[int, HarvestJob] = {}
        self._numbers = self._versions = 0
        for number in range(desks):
            visits = owner_visits(number, days, seed)
            view = MachineView(f"desk-{number}", Resources(1), mints=False)
            presence = Presence(case.steps.continue_s)
            presence.watched(0.0, is_watched=True)
            learnt = b""
            if case.hint is Hint.EXPECTED:
                learnt = learnt_by(number, days, seed, case.steps.continue_s)
            desk = Desk(view, visits, presence, Absences(learnt))
            self._desks.append(desk)
            self._state.add_machine(view)
            self._expect(desk, 0.0)
            self._plan(number, 0.0)
        self._comes_s = inf
        self._plan_arrival(0.0)

    # --- time ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Go on until the last day is over."""
        agenda = self._agenda
        self._decide(0.0)
        while agenda and agenda[0][0] < self.until_s:
            now_s = agenda[0][0]
            while agenda and agenda[0][0] == now_s:
                _, number, version = heappop(agenda)
                self._happen(number, version, now_s)
            self._decide(now_s)
        for job in self._waiting.values():
            self.totals.kept_s += job.kept_s
        for desk in self._desks:
            if desk.run is not None:
                ran_s = desk.run.now_ran_s(self.until_s)
                self.totals.computed_s += ran_s
                self.totals.kept_s += ran_s + desk.run.job.kept_s
            self.totals.absent_s += self.until_s - sum(
                min(visit.end_s, self.until_s) - visit.begin_s
                for visit in desk.visits
                if visit.begin_s < self.until_s
            )

    def _happen(self, number: int, version: int, now_s: float) -> None:
        """Let a run end (its `version`), look at a desk, or let a job come."""
        if number == ARRIVAL:
            return  # see `_top_up`
        desk = self._desks[number]
        if version == LOOK:
            if now_s >= desk.alarm_s:
                self._look(desk, now_s)
                self._plan(number, now_s)
        elif desk.run is not None and desk.run.version == version and not desk.run.is_frozen:
            self._finish(desk, now_s)

    def _plan(self, number: int, now_s: float) -> None:
        """Plan when to look at a desk next."""
        desk = self._desks[number]
        at_s = desk.presence.next_s
        since_s = desk.presence.since_s
        if since_s is not None:
            used_s = max(0.0, now_s - since_s) + ROUNDING_S
            at_s = min(at_s, since_s + self._case.steps.next_step_s(used_s))
        if desk.place < len(desk.visits):
            visit = desk.visits[desk.place]
            at_s = min(at_s, visit.begin_s if now_s < visit.begin_s else visit.end_s)
        desk.alarm_s = at_s
        if at_s < inf:
            heappush(self._agenda, (at_s, number, LOOK))

    # --- owners ----------------------------------------------------------------------------------

    def _look(self, desk: Desk, now_s: float) -> None:
        """Take in what the owner does, and have the task give way or go on."""
        if desk.place < len(desk.visits) and now_s >= desk.visits[desk.place].begin_s:
            desk.presence.sign(now_s, now_s)
            if now_s >= desk.visits[desk.place].end_s:
                desk.place += 1
        desk.presence.look(now_s)
        used_s = desk.presence.used_s(now_s)
        step = OwnerStep.NONE if used_s is None else self._case.steps.step(used_s + ROUNDING_S)
        if desk.run is not None:
            if step >= OwnerStep.VACATE:
                self._evict(desk, now_s)
            else:
                self._freeze(desk, now_s, is_frozen=step is OwnerStep.SUSPEND)
        unavailable = IN_USE if used_s is not None else None
        if desk.view.unavailable is not unavailable:
            desk.view.unavailable = unavailable
            self._expect(desk, now_s)
            self._state.availability_changed(desk.view)

    def _expect(self, desk: Desk, now_s: float) -> None:
        """Tell the broker how long the owner stays away, as a report does."""
        hint, until_s = self._case.hint, inf
        if hint is Hint.EXPECTED:
            wall_s = MONDAY_WALL_S + now_s
            desk.absences.look(now_s, wall_s, is_idle=desk.presence.since_s is None)
            until_s = now_s + desk.absences.expected_s(now_s, wall_s)
        elif hint is Hint.TRUTH and desk.place < len(desk.visits):
            until_s = desk.visits[desk.place].begin_s
        if hint is not Hint.NOTHING:
            self._state.index.expect_owner(desk.view, until_s)

    def _freeze(self, desk: Desk, now_s: float, *, is_frozen: bool) -> None:
        run = desk.run
        if run is None or run.is_frozen is is_frozen:
            return
        run.ran_s, run.since_s = run.now_ran_s(now_s), now_s
        run.is_frozen = is_frozen
        run.version = 0
        view = desk.view
        stay_s = None if is_frozen else run.job.limit_s - run.job.kept_s - run.ran_s
        view.calendar.change(run.key, view.calendar.held_by(run.key), now_s, stay_s)
        self._state.index.changed(view)
        if not is_frozen:
            self._plan_end(desk, run, now_s)

    def _evict(self, desk: Desk, now_s: float) -> None:
        run = desk.run
        assert run is not None
        ran_s = run.now_ran_s(now_s)
        kept_s = self._kept_s(ran_s)
        self.totals.computed_s += ran_s
        self.totals.lost_s += ran_s - kept_s
        self.totals.evictions += 1
        run.job.kept_s += kept_s
        self._leave(desk)
        self._submit(run.job, now_s, is_front=True)

    def _kept_s(self, ran_s: float) -> float:
        """Return how much of a run is kept when it is evicted."""
        is_asked = self._case.steps.discard_s == inf
        if self._case.saving is Saving.AND_WHEN_ASKED and is_asked:
            return ran_s
        return 0.0 if self._case.saving is Saving.NEVER else ran_s - ran_s % SAVES_S

    # --- jobs ------------------------------------------------------------------------------------

    def _plan_end(self, desk: Desk, run: HarvestRun, now_s: float) -> None:
        self._versions += 1
        run.version = self._versions
        number = int(desk.view.name.rpartition("-")[2])
        heappush(self._agenda, (now_s + run.left_s, number, run.version))

    def _finish(self, desk: Desk, now_s: float) -> None:
        run = desk.run
        assert run is not None
        self.totals.computed_s += run.now_ran_s(now_s)
        self.totals.kept_s += run.job.run_s
        self.totals.finished += 1
        self.totals.turnarounds_s.append(now_s - run.job.come_s)
        self._leave(desk)
        self._expect(desk, now_s)

    def _leave(self, desk: Desk) -> None:
        run, desk.run = desk.run, None
        assert run is not None
        self._state.end(desk.view, run.key)

    def _submit(self, job: HarvestJob, now_s: float, *, is_front: bool = False) -> None:
        self._waiting[job.number] = job
        self._state.put(job.want(is_front=is_front), now_s)

    def _top_up(self, now_s: float) -> None:
        """Let so many jobs wait that work is never short, or those come that are due."""
        if self._case.load is None:
            while len(self._waiting) < WAITING:
                self._new_job(now_s)
        while self._comes_s <= now_s:
            self._new_job(now_s)
            self._plan_arrival(now_s)

    def _new_job(self, now_s: float) -> None:
        self._numbers += 1
        run_s = self._jobs_rng.between(*HOURS) * HOUR_S
        limit_s = HOUR_S * (1 + run_s // HOUR_S)
        self._submit(HarvestJob(self._numbers, run_s, limit_s, now_s), now_s)

    def _plan_arrival(self, now_s: float) -> None:
        if self._case.load is not None:
            mean_s = sum(HOURS) / 2 * HOUR_S
            rate = self._case.load * ABSENT_PART * len(self._desks) / mean_s
            self._comes_s = now_s + self._jobs_rng.exponential(1.0 / rate)
            heappush(self._agenda, (self._comes_s, ARRIVAL, 0))

    def _decide(self, now_s: float) -> None:
        """Run the pass that the broker runs after an event."""
        self._top_up(now_s)
        while self._state.may_start_something:
            now = Instant(now_s, MONDAY_WALL_S + now_s)
            decisions = SchedulingPass(self._state, self._rng, now).run()[0]
            for decision in decisions:
                job = self._waiting.pop(decision.entry.want.job.number)
                view, _, key = decision.seats[0]
                desk = self._desks[int(view.name.rpartition("-")[2])]
                desk.run = HarvestRun(job, key, now_s)
                self._plan_end(desk, desk.run, now_s)
            if not decisions:
                return
            self._top_up(now_s)


def idle_part(desks: int, days: int, seed: int) -> float:
    """Return which part of all CPU time is idle where nothing but owners uses the desks."""
    here_s = 0.0
    for number in range(desks):
        here_s += sum(end_s - begin_s for begin_s, end_s in owner_visits(number, days, seed))
    used_part = here_s / (desks * days * DAY_S)
    return 1.0 - used_part * USED_PART - (1.0 - used_part) * UNUSED_PART


def owner_visits(number: int, days: int, seed: int) -> list[Span]:
    """Return when the owner of a desk uses it, from the first day after the learning on."""
    return [
        Span(max(0.0, begin_s - LEARNT_S), end_s - LEARNT_S)
        for begin_s, end_s in _all_visits(number, days, seed)
        if end_s > LEARNT_S
    ]


def learnt_from(number: int, days: int, seed: int) -> list[Span]:
    """Return when the owner used the desk in the four weeks before."""
    visits = _all_visits(number, days, seed)
    return [visit for visit in visits if visit.end_s <= LEARNT_S]


@cache
def _all_visits(number: int, days: int, seed: int) -> list[Span]:
    rng = Rng(seed, f"owner {number}")
    return visits_of(rng, habits_of(rng), LEARNT_DAYS + days)


@cache
def learnt_by(number: int, days: int, seed: int, continue_s: float) -> bytes:
    """Return what a machine has learnt of the visits before moment 0."""
    absences, visits = Absences(), learnt_from(number, days, seed)
    begin_s = -LEARNT_S
    absences.look(begin_s, MONDAY_WALL_S + begin_s, is_idle=True)
    here_s, left_s = begin_s, begin_s
    for visit in (*visits, Span(LEARNT_S, LEARNT_S)):
        here_s = visit.begin_s - LEARNT_S
        if left_s > begin_s and here_s > left_s + continue_s:
            idle_s = left_s + continue_s
            absences.look(idle_s, MONDAY_WALL_S + idle_s, is_idle=True)
        if here_s < 0.0:
            absences.look(here_s, MONDAY_WALL_S + here_s, is_idle=False)
        left_s = visit.end_s - LEARNT_S
    return absences.stored()

"""A simulated machine: the product's parts, a launcher, a store, clocks; its daemon may die.

It is driven in world time. Everything that has arrived at one moment is one turn, as in the daemon
(docs/adr/0006): the turn's records go to the store, and what leaves the machine waits until the
urgent ones among them are durable.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from iriai.config.reader import Configuration
from iriai.machine.composition import CoreSettings, compose
from iriai.machine.core import Machine
from iriai.machine.events import MachineEvent
from iriai.machine.outbox import Turn
from iriai.model.ad import MachineAd
from iriai.model.admission_rules import HomeRules
from iriai.model.home_trust import HomeTrust, refusal_of
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.owner import OwnerWord, SignKind
from iriai.model.reason import Reason
from iriai.model.resources import Resources
from iriai.model.suspension import SuspendReason
from iriai.plugins.orders import order_named
from iriai.policy.draw.order import OrderSettings
from iriai.policy.placement.policy_api import PlanSource
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import (
    Delivered,
    Effect,
    JobCompleted,
    LauncherEvent,
    LauncherLost,
    OrderCycle,
    Part,
    PeerNoticed,
    PolicyFailed,
    ReservationAnswered,
    Send,
    Wake,
    WakeAt,
    WatchOwner,
    WhyAnswered,
)
from iriai.sim.world.clock import Clock
from iriai.sim.world.launcher_model import LauncherModel
from iriai.sim.world.repeated_times import repeated_times
from iriai.sim.world.store_model import Commits, StoreModel
from iriai.sim.world.work import Works

DEFAULTS = Configuration()
EVERYBODY = HomeRules()
STEPS_AT_ONCE_MAX = 5_000
"""More steps of a machine in one moment than there is to do."""
EVERY_PART = (Part.NODE, Part.HOME, Part.BROKER)


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """The description of a simulated machine."""

    name: str
    capacity: Resources = Resources(2, 64 << 30)
    parts: tuple[Part, ...] = EVERY_PART
    broker_at: str = ""
    """The machine of its broker; empty: itself."""
    configuration: Configuration = DEFAULTS
    policy: PlanSource | None = None
    """A policy from a file, instead of draws and backfill."""
    speed: float = 1.0
    load_max: float | None = None
    ad: MachineAd | None = None
    """What it says of itself; None: its capacity."""
    rules: HomeRules = EVERYBODY
    """The rules of whose tasks it runs."""
    outward_only: bool = False
    """True if others cannot open a link to it."""
    sync_s: float = 0.0
    """How long a commit takes."""
    cluster: str = ""
    """The cluster that elects its broker; empty without an election."""


def _unsent(_machine: SimulatedMachine, _send: Send) -> None:
    raise AssertionError("a message to another machine, and there is no network")


def _unseen(_machine: SimulatedMachine, _turn: Turn, _now: Instant) -> None:
    """Ignore a turn: no observer is set."""


def _unheard(_machine: SimulatedMachine, _answer: ReservationAnswered) -> None:
    """Ignore an answer: no observer is set."""


STANDING = (OrderCycle, WatchOwner)
"""Orders by which a launcher acts on its own."""


class SimulatedMachine:
    """One machine; times are those of the world."""

    def __init__(
        self,
        plan: MachinePlan,
        clock: Clock,
        works: Works,
        node_rng: Random,
        broker_rng: Random,
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.store = StoreModel()
        self.launcher = LauncherModel(clock, works, plan.speed)
        self.commits = Commits(self.store, plan.sync_s)
        self.policy_mistakes: list[str] = []
        """What its broker said of the policy."""
        self.settled: list[int] = []
        """The numbers of the jobs that completed."""
        self.explanations: dict[int, tuple[Reason, ...]] = {}
        """By job, the reasons that the broker of another machine answered."""
        self.asked_reservations: dict[int, Machine] = {}
        """By number, the core that was asked for a reservation and has not answered yet."""
        self.on_reservation: Callable[[SimulatedMachine, ReservationAnswered], None] = _unheard
        self.core: Machine
        self.is_up = False
        """Whether its daemon lives."""
        self.is_stopped = False
        """Whether its daemon sleeps (SIGSTOP)."""
        self.trusted: dict[str, tuple[float, tuple[str, ...]]] = {}
        """By home, when an operator signed it and for which users; kept across restarts."""
        self.consents: dict[tuple[str, str], float] = {}
        """By home and user, the end of their consent."""
        self.let_in: set[tuple[str, str]] = set()
        """The pairs of home and user that were admitted once."""
        self.owner_word: tuple[Machine, OwnerWord | None, float] | None = None
        """What its owner said last, to which core, and until when that holds (wall clock)."""
        self.sleep_announced_to: Machine | None = None
        """The core that was told that the machine is about to sleep; None: it is not."""
        self.conditions: dict[SignKind, None] = {}
        """Those that hold there, of those that it is to watch for."""
        self.taken_s: dict[SuspendReason, float] = {}
        """When the machine last took each reason from what it runs, in world time."""
        self.boots = 1
        self.turns = 0
        self.on_send: Callable[[SimulatedMachine, Send], None] = _unsent
        self.clock_of: Callable[[str], Estimate | None] = lambda _: None
        """What the machine knows of the wall clock of another one."""
        self.on_turn: Callable[[SimulatedMachine, Turn, Instant], None] = _unseen
        self.is_due = False
        self.planned_s: list[float] = []
        self.inbox: deque[MachineEvent] = deque()
        self.alarms: dict[Part, float] = {}
        """In world time."""
        self._rng = (node_rng, broker_rng)
        self._answers: list[Callable[[], None]] = []
        self._has_requests = False
        self._waits_for_welcome = False
        self.liars: frozenset[str] = frozenset()
        """The machines that lie in this world; no other may be accused."""
        self._now_s = 0.0
        """The time of the last step or turn."""
        self._stepped_s = -1.0
        self._steps_at_once = 0

    def set_clock(self, clock: Clock) -> None:
        """Set its wall clock, of daemon and launcher."""
        self.clock = self.launcher.clock = clock

    # --- the daemon ------------------------------------------------------------------------------

    def start(self, now_s: float) -> None:
        """Start a daemon from the store; the memory of an earlier one is lost."""
        now = self._now(now_s)
        self._forget()
        self.core = self._from_store(now)
        self.core.clock_of = self.clock_of
        self.is_up, self.is_stopped = True, False
        self.core.begin(now)
        self.turn(now_s)
        if self.launcher.is_up:
            self._greeted()

    def go_down(self, kept_turns: int = 0) -> None:
        """Kill the daemon; the first `kept_turns` of those not synced are kept."""
        self.store.crash(min(kept_turns, len(self.store.unsynced)))
        self._forget()
        self.is_up = self.is_stopped = False

    def power_off(self, now_s: float, kept_turns: int = 0) -> None:
        """Switch the machine off; it comes back as another boot."""
        self.go_down(kept_turns)
        self.launcher.power_off(now_s)
        self.boots += 1

    def _forget(self) -> None:
        self.alarms.clear()
        self.inbox.clear()
        self._answers.clear()
        self.commits.forget()
        self._has_requests = False

    @property
    def trust(self) -> HomeTrust:
        """The homes that its cluster trusts, as far as it has heard."""
        return HomeTrust({each: users for each, (_, users) in self.trusted.items()})

    def refusal_of(self, home: str, user: str, wall_s: float) -> str:
        """Return why tasks of a user from a home are refused here; empty if they are not."""
        until_s = self.consents.get((home, user), -math.inf)
        words = refusal_of(self.plan.rules, self.trust, home, user, lambda: wall_s < until_s)
        if not words:
            self.let_in.add((home, user))
        return words

    def _from_store(self, now: Instant) -> Machine:
        plan, order = self.plan, self.plan.configuration.order
        settings = CoreSettings(
            plan.name,
            plan.parts,
            plan.configuration,
            order_named(order.name, OrderSettings(order.usage_floor_s)),
            plan.policy,
            plan.capacity,
            plan.speed,
            plan.load_max,
            f"boot-{self.boots}",
            self.refusal_of,
            plan.ad,
            plan.cluster,
            plan.broker_at,
            expand=repeated_times,
        )
        return compose(settings, self.store.load(), *self._rng, now)

    # --- the launcher ----------------------------------------------------------------------------

    def kill_launcher(self, now_s: float) -> None:
        """Kill the launcher; the next one ends the processes."""
        self.launcher.die(now_s)
        self._receive([LauncherLost()])

    def start_launcher(self, now_s: float) -> None:
        """Start a new launcher with the journal of the old one."""
        self.launcher.start(now_s)
        self._greeted()

    def wake_launcher(self, now_s: float) -> None:
        """Resume a stopped launcher; a daemon that connected meanwhile is answered now."""
        events = self.launcher.wake(now_s)
        if self._waits_for_welcome:
            self._greeted()
        else:
            self._receive(events)

    def owner_gives_sign(self, now_s: float) -> None:
        """Let the owner of the machine use it for a moment."""
        self._receive(self.launcher.sign(SignKind.INPUT, now_s))

    def looks_for(self, kind: SignKind, now_s: float, *, holds: bool) -> None:
        """Let a sensor see whether a condition holds."""
        if holds:
            self.conditions[kind] = None
        else:
            self.conditions.pop(kind, None)
        self._receive(self.launcher.looks_for(kind, now_s, holds=holds))

    def have_sensor(self, now_s: float, *, works: bool) -> None:
        """Let what notices the owner work, or fail."""
        self._receive(self.launcher.have_sensor(now_s, works=works))

    def _greeted(self) -> None:
        """Connect the daemon to the launcher, which answers once it is not stopped."""
        self._waits_for_welcome = self.launcher.is_stopped
        if not self.launcher.is_stopped:
            self._receive(self.launcher.welcome())

    def _receive(self, events: list[LauncherEvent]) -> None:
        """Take events of the launcher; without a daemon they are lost."""
        if self.is_up and Part.NODE in self.plan.parts:
            self.inbox.extend(events)

    # --- time ------------------------------------------------------------------------------------

    def arrive(self, event: MachineEvent) -> None:
        """Take an event for the next turn, unless its sender may not send it.

        Raises:
            AssertionError: a message of an honest machine is refused.
        """
        if type(event) is Delivered:
            sender, part, message = event.sender, event.part, event.message
            if not self.core.takes(sender, part, message):
                is_lie = sender in self.liars
                assert is_lie, f"{self.plan.name} refuses a message of {sender}: {message}"
                return
        self.inbox.append(event)

    def submit(
        self, spec: JobSpec, now_s: float, answer: Callable[[JobId], None] | None = None
    ) -> JobId:
        """Submit a job for the next turn; `answer` is called when it is durable."""
        job = self.core.submit(spec, (), self._now(now_s))
        self.asked()
        if answer is not None:
            self._answers.append(lambda: answer(job))
        return job

    def asked(self) -> None:
        """Note a request to the core, which needs a turn."""
        self._has_requests = True

    def next_s(self, now_s: float) -> float:
        """Return the time of the next step; infinite if nothing is planned."""
        if not self.is_up or self.is_stopped:
            return self.launcher.next_end_s()
        if self.inbox or self._has_requests:
            return now_s
        next_s = self.launcher.next_end_s()
        if self.commits.next_s < next_s:
            next_s = self.commits.next_s
        for alarm_s in self.alarms.values():
            if alarm_s < next_s:
                next_s = alarm_s
        return next_s

    def step(self, now_s: float) -> None:
        """Handle everything that is due by now.

        Raises:
            AssertionError: its parts keep it busy for ever, in one moment.
        """
        self._steps_at_once = self._steps_at_once + 1 if now_s == self._stepped_s else 0
        self._stepped_s = now_s
        assert self._steps_at_once < STEPS_AT_ONCE_MAX, f"no time passes on {self.plan.name}"
        launcher = self.launcher
        if launcher.next_end_s() <= now_s:
            self._receive(launcher.ends_until(now_s))
        if not self.is_up or self.is_stopped:
            return
        self._now_s = now_s
        if self.commits.next_s <= now_s:
            self.commits.step(now_s)
        if self.alarms:
            for part, due_s in tuple(self.alarms.items()):
                if due_s <= now_s:
                    del self.alarms[part]
                    self.inbox.append(Wake(part))
        if self.inbox or self._has_requests:
            self.turn(now_s)

    def turn(self, now_s: float) -> None:
        """Handle what has arrived, write its records and perform its effects."""
        self._now_s = now_s
        turn, now = self.end_turn(now_s)
        if turn.records:
            self.commits.write(turn.records, turn.is_urgent, now_s)
        if turn.outward or self._answers:
            self._send_off(turn.outward)
        self.on_turn(self, turn, now)

    def _send_off(self, outward: list[Effect]) -> None:
        """Set the alarms; hold back all else until the records are durable."""
        answers, self._answers = self._answers, []
        orders: list[Effect] = []
        for effect in outward:
            if type(effect) is WakeAt:
                self.alarms[effect.part] = self.clock.world_s(effect.steady_s)
            else:
                orders.append(effect)
        self.commits.outbox.send(lambda: self._leave(orders, answers))

    def end_turn(self, now_s: float) -> tuple[Turn, Instant]:
        """Handle what has arrived; return a turn of which nothing is stored or sent yet."""
        self._has_requests = False
        now = self._now(now_s)
        core, inbox = self.core, self.inbox
        while inbox:
            core.handle(inbox.popleft(), now)
        return core.end_turn(now), now

    def _leave(self, effects: list[Effect], answers: list[Callable[[], None]]) -> None:
        """Perform the effects of a turn whose records are durable."""
        launcher = self.launcher
        standing = [each for each in effects if type(each) in STANDING]
        if standing:  # the daemon sends the last of a kind, before the starts that it is about
            last = {type(each): each for each in standing}
            others = (each for each in effects if type(each) not in STANDING)
            effects = [*last.values(), *others]
        for effect in effects:
            if type(effect) is Send:
                self.on_send(self, effect)
            elif type(effect) is JobCompleted:
                self.settled.append(effect.number)
            elif isinstance(effect, WhyAnswered):
                self.explanations[effect.number] = effect.reasons
            elif isinstance(effect, ReservationAnswered):
                self.asked_reservations.pop(effect.number, None)
                self.on_reservation(self, effect)
            elif isinstance(effect, PeerNoticed):
                is_liar = self.liars & {self.plan.name, effect.machine}
                assert is_liar, f"an honest machine is accused: {effect}"
            elif isinstance(effect, PolicyFailed):
                self.policy_mistakes.append(effect.message)
            elif launcher.is_up:
                self.inbox.extend(launcher.order(effect, self._now_s))
        for answer in answers:
            answer()

    def _now(self, now_s: float) -> Instant:
        """Return the clocks at the begin of a new turn."""
        self.turns += 1
        return self.clock.at(now_s, f"{self.plan.name}:{self.turns}")

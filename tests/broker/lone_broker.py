"""A broker alone: nodes and homes are played by the test."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from iriai.broker.core import Broker
from iriai.broker.state.state import TURN_WORK_MAX, BrokerSettings
from iriai.config.reader import Configuration
from iriai.config.sections import (
    GangSection,
    GroupSection,
    OrderSection,
    PoolSection,
    QueueSection,
    ReservationsSection,
)
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.draw.order import OrderSettings
from iriai.policy.placement.policy_api import PlanSource
from iriai.protocol.messages.effects import Effect, Part, Wake, WakeAt
from iriai.protocol.messages.scheduling import (
    Capability,
    Counted,
    Idle,
    Match,
    Promise,
    Running,
    Want,
)
from tests.support.told import HOME, WALL_S, Told, attempt, instant, job, told

CAPACITY = Resources(4, 8 << 30)


class LoneBroker:
    """Matches become claims unless the test says otherwise."""

    def __init__(
        self,
        *,
        order: str = "lottery",
        cap_cpus: int | None = None,
        groups: dict[str, GroupSection] | None = None,
        seed: int = 1,
        now_s: float = 0.0,
        plan: PlanSource | None = None,
        turn_work_max: int = TURN_WORK_MAX,
        queues: dict[str, QueueSection] | None = None,
        pools: dict[str, PoolSection] | None = None,
        gang: GangSection | None = None,
        reservations: ReservationsSection | None = None,
        **section,
    ) -> None:
        orders = OrderSection(name=order, running_cap_cpus=cap_cpus, **section)
        configuration = Configuration(
            order=orders,
            groups=groups or {},
            queues=queues or {},
            pools=pools or {},
            gang=gang or GangSection(),
            reservations=reservations or ReservationsSection(),
        )
        named = order_named(order, OrderSettings(orders.usage_floor_s))
        told_settings = BrokerSettings(configuration, named, plan, turn_work_max)
        self.broker = Broker(told_settings, Random(seed), HOME)
        self.now_s = now_s
        self._versions: dict[str, int] = {}
        self._slots = 0

    def tell(self, *messages) -> Told:
        """Give it the messages of one instant, and turns until it asks for no more at once."""
        effects = list(self.turn(*messages))
        while effects and effects[-1] == WakeAt(Part.BROKER, self.now_s):
            effects[-1:] = self.turn(Wake(Part.BROKER))
        return told(effects)

    def turn(self, *messages) -> list[Effect]:
        """Give it the messages of one turn."""
        now = instant(self.now_s)
        effects: list[Effect] = []
        for message in messages:
            self.broker.take(message, now)
        effects += self.broker.end_turn(now)
        self.broker.check()
        return effects

    def idle(self, free: int | None = None, *, whole: bool = True, **fields) -> Idle:
        """The machine's next report, with so many new capabilities."""
        machine = fields.get("machine", HOME)
        version = self._versions[machine] = self._versions.get(machine, 0) + 1
        count = free if free is not None else fields.get("capacity", CAPACITY).cpus
        return Idle(
            **(
                {
                    "machine": HOME,
                    "incarnation": 1,
                    "version": version,
                    "capacity": CAPACITY,
                    "capabilities": self.capabilities(count),
                    "spent": (),
                    "began": (),
                    "ended": (),
                    "whole": whole,
                    "unavailable": None,
                }
                | fields
            )
        )

    def capabilities(self, count: int) -> tuple[Capability, ...]:
        first = self._slots
        self._slots += count
        return tuple(Capability(1, 1, slot, slot) for slot in range(first, self._slots))

    def began(self, matched: Match, want_: Want, **fields) -> Idle:
        """The match became a claim that runs."""
        running = as_running(want_, capability=matched.seats[0].capability)
        changes = {"began": (running,), "spent": (matched.seats[0].capability,)}
        return self.idle(0, whole=False, **(changes | fields))

    def wake(self) -> Told:
        return self.tell(Wake(Part.BROKER))


def want(number: int = 1, user: str = "ann", *, group: str = "lab", cpus: int = 1, **fields):
    """A job of one task that has just been handed in."""
    resources = Resources(cpus)
    defaults = {"limit_s": None, "urgency": 1.0, "waited_s": 0.0, "count": 1}
    given = {"resources": resources} | defaults | fields
    return Want(job=job(number), account=Account(group, user), **given)


def as_running(
    want_: Want,
    *,
    attempt_id: AttemptId | None = None,
    ends_in_s: float | None = None,
    capability: Capability | None = None,
) -> Running:
    return Running(
        attempt_id or attempt(want_.job.number),
        want_.account,
        want_.resources,
        want_.limit_s,
        ends_in_s,
        0.0,
        want_.urgency,
        capability,
    )


def counted(**usage_s: float) -> Counted:
    """The machine's counters: charged seconds of users of the group lab, now."""
    rows = tuple(LedgerRow(Account("lab", u), s, WALL_S, 1, 10.0) for u, s in usage_s.items())
    return Counted(HOME, rows, ())


def matched(said: Told) -> list[JobId]:
    """The jobs that were matched, in order."""
    return [message.job for message in said.home if isinstance(message, Match)]


def matches(said: Told) -> list[Match]:
    return [message for message in said.home if isinstance(message, Match)]


def promises(said: Told) -> list[tuple[int, float | None]]:
    return [(m.job.number, m.start_in_s) for m in said.home if isinstance(m, Promise)]


def numbers(jobs: Iterable[JobId]) -> list[int]:
    return [each.number for each in jobs]

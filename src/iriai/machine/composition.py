"""Composes the parts of a machine from settings and store, for the daemon and the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from iriai.broker.core import Broker
from iriai.broker.federation.federation import Federation
from iriai.broker.state.other_clusters import OtherClusters
from iriai.broker.state.state import BrokerSettings
from iriai.config.reader import Configuration
from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.machine.node_queues import node_queues
from iriai.machine.owner_section import owner_policy
from iriai.machine.policy_section import policy_terms
from iriai.model.ad import MachineAd
from iriai.model.instant import Instant
from iriai.model.reservable import Reservable
from iriai.model.reservation import ReservationLimits
from iriai.model.resources import Resources
from iriai.model.snapshot import StoredState
from iriai.node.core import Node
from iriai.node.settings import JudgeUser, NodeSettings, admit_everybody, no_port
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import Order
from iriai.policy.placement.policy_api import PlanSource
from iriai.protocol.election.election import Election
from iriai.protocol.messages.effects import Part

if TYPE_CHECKING:
    from iriai.home.reservations.occurrence import Expand


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What a machine is, apart from what it stored."""

    name: str
    parts: tuple[Part, ...]
    """Where brokers are elected the broker is not among them."""
    configuration: Configuration
    order: Order
    """That of `configuration`."""
    plan: PlanSource | None = None
    """A policy from a file, instead of draws and backfill."""
    capacity: Resources = Resources()
    speed: float = 1.0
    load_max: float | None = None
    boot_id: str = ""
    judge_user: JudgeUser = admit_everybody
    ad: MachineAd | None = None
    """What it says of itself; None: its capacity."""
    cluster: str = ""
    """The cluster that elects its broker; empty without an election."""
    broker_at: str = ""
    """The machine whose broker one without a broker follows, where one is elected until it knows
    better; empty: it has one itself."""
    free_port: Callable[[], int] = no_port
    """See `NodeSettings`."""
    expand: Expand | None = None
    """The occurrences of a rule of repetition; None: those of RFC 5545."""


def compose(
    settings: CoreSettings,
    stored: StoredState,
    node_rng: Random,
    broker_rng: Random,
    now: Instant,
) -> Machine:
    """Return the parts of a machine as one, from what its store gave back."""
    name, configuration, cluster = settings.name, settings.configuration, settings.cluster
    node = home = None
    if Part.NODE in settings.parts:
        node = _node(settings, stored, node_rng, now)
    if Part.HOME in settings.parts:
        reserved = (stored.reservations, stored.next_reservation)
        asked = configuration.reservations
        bounds = (asked.horizon_s, asked.count_max, asked.no_show_s, asked.lost_s)
        limits = ReservationLimits(*bounds)
        kept = (stored.next_number, stored.jobs, stored.ended, *reserved)
        may = policy_terms(configuration)
        home = Home(name, *kept, node_rng, limits, settings.expand, may)
    make_broker = partial(
        Broker,
        BrokerSettings(configuration, settings.order, settings.plan),
        broker_rng,
        name,
        Federation if cluster else OtherClusters,
    )
    if not cluster:
        broker = make_broker() if Part.BROKER in settings.parts else None
        return Machine(name, node, home, broker, broker_at=settings.broker_at)
    section = configuration.cluster
    pinned, follows = section.broker or "", settings.broker_at
    election = Election(name, cluster, pinned, section.silence_s, follows=follows)
    return Machine(name, node, home, None, succession=election, make_broker=make_broker)


def _node(settings: CoreSettings, stored: StoredState, rng: Random, now: Instant) -> Node:
    order, machine = settings.configuration.order, settings.configuration.machine
    node_settings = NodeSettings(
        settings.name,
        settings.capacity,
        ChargeRule.of(order),
        decay_of(order),
        settings.speed,
        settings.boot_id,
        settings.configuration.jobs.end_slack_s,
        settings.configuration.jobs.user_suspend_max_s,
        settings.load_max,
        settings.judge_user,
        settings.ad,
        node_queues(settings.configuration, settings.ad),
        settings.free_port,
        owner_policy(settings.configuration.owner),
        settings.configuration.reservations.unused_factor,
        settings.configuration.reservations.no_show_charge,
        Reservable(machine.reservable, machine.reservable_by),
        settings.configuration.reservations.policy == "above",
    )
    incarnation = stored.incarnation + 1
    kept = (stored.claims, stored.ledger, now, stored.drained)
    node = Node(node_settings, rng, incarnation, *kept, bookings=stored.bookings)
    if node.owner is not None:
        node.owner.remember(stored.absences)
        if stored.owner_word is not None:
            node.owner.restore(stored.owner_word, now)
    return node

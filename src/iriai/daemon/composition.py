"""Builds the cores of a machine from its settings and its store."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from iriai.broker.core import Broker
from iriai.broker.federation.federation import Federation
from iriai.broker.state.other_clusters import OtherClusters
from iriai.broker.state.state import BrokerSettings
from iriai.daemon.host.machine_ad import own_ad
from iriai.daemon.host.user_policy import UserPolicy
from iriai.daemon.startup.settings import DaemonSettings
from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.model.instant import Instant
from iriai.model.snapshot import StoredState
from iriai.node.core import Node
from iriai.node.settings import NodeSettings
from iriai.plugins.orders import order_named, plug_in_orders
from iriai.plugins.policy_file import named_plan
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.protocol.election.election import Election

FRONT_END = "front end"
"""Where the broker of a back end is before its front end has told its name: no machine has this."""


def make_machine(
    settings: DaemonSettings,
    stored: StoredState,
    now: Instant,
    back_ends: Callable[[], Iterable[str]],
) -> Machine:
    """The cores of this machine, from what its store gave back; `back_ends` of this host."""
    configuration = settings.configuration
    rng = Random(secrets.randbits(64))
    minimum_uid = configuration.identity.minimum_uid
    judge = UserPolicy(settings.rules, minimum_uid, settings.single_uid, settings.cluster)
    node_settings = NodeSettings(
        settings.home,
        settings.capacity,
        ChargeRule.of(configuration.order),
        decay_of(configuration.order),
        configuration.machine.speed,
        settings.facts.boot_id,
        configuration.jobs.end_slack_s,
        configuration.machine.load_max,
        judge.judge,
        own_ad(settings),
    )
    incarnation = stored.incarnation + 1
    node = Node(node_settings, rng, incarnation, stored.claims, stored.ledger, now, stored.drained)
    if not settings.role.has_home:
        return Machine(settings.home, node, None, None, broker_at=FRONT_END)
    order_settings = OrderSettings(configuration.order.usage_floor_s)
    order = order_named(configuration.order.name, order_settings, plug_in_orders())
    plan = named_plan(configuration.order.policy)
    broker_settings = BrokerSettings(configuration, order, plan)
    is_member = settings.cluster is not None
    federate = Federation if is_member else OtherClusters
    make_broker = partial(Broker, broker_settings, rng, settings.home, federate)
    own = (settings.home,) if settings.role.has_node else ()
    home = Home(
        settings.home,
        stored.next_number,
        stored.jobs,
        stored.ended,
        (lambda: (*own, *back_ends()) or (settings.home,)) if is_member else tuple,
    )
    own_node = node if settings.role.has_node else None
    if settings.cluster is None:
        return Machine(settings.home, own_node, home, make_broker())
    pinned = configuration.cluster.broker or ""
    cluster = configuration.cluster.name or settings.cluster.identity.cluster
    succession = Election(settings.home, cluster, pinned, configuration.cluster.silence_s)
    return Machine(
        settings.home, own_node, home, None, succession=succession, make_broker=make_broker
    )

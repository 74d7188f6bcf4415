"""The settings of this machine's cores, from those of its daemon."""

from __future__ import annotations

import secrets
from random import Random

from iriai.config.reader import Configuration
from iriai.daemon.startup.settings import DaemonSettings
from iriai.host.machine_ad import own_ad
from iriai.identity.user_policy import UserPolicy
from iriai.machine.composition import CoreSettings, compose
from iriai.machine.core import Machine
from iriai.model.instant import Instant
from iriai.model.snapshot import StoredState
from iriai.plugins.orders import order_named, plug_in_orders
from iriai.plugins.policy_file import named_plan
from iriai.policy.draw.order import OrderSettings
from iriai.system.interfaces import free_port


def front_end_name(settings: DaemonSettings) -> str:
    """Return the machine through which a back end entered its cluster; else empty.

    A back end that is in none yet has no broker: no machine is called so.
    """
    if not settings.role.front:
        return ""
    return settings.cluster.front_end if settings.cluster is not None else "front end"


def user_policy(settings: DaemonSettings) -> UserPolicy:
    """Return the judge of other machines: for which users each speaks here."""
    minimum_uid = settings.configuration.identity.minimum_uid
    return UserPolicy(settings.rules, minimum_uid, settings.single_uid, settings.cluster)


def make_machine(
    settings: DaemonSettings, configuration: Configuration, stored: StoredState, now: Instant
) -> Machine:
    """The cores of this machine, from what its store gave back; `configuration` is in force."""
    role, state = settings.role, settings.cluster
    rng = Random(secrets.randbits(64))
    cluster = ""
    if state is not None:
        cluster = configuration.cluster.name or state.identity.cluster
    order = configuration.order
    composed = CoreSettings(
        settings.home,
        role.parts,
        configuration,
        order_named(order.name, OrderSettings(order.usage_floor_s), plug_in_orders()),
        named_plan(order.policy) if role.has_home else None,
        settings.capacity,
        configuration.machine.speed,
        configuration.machine.load_max,
        settings.facts.boot_id,
        user_policy(settings).judge,
        own_ad(
            settings.home,
            configuration.machine,
            settings.capacity,
            settings.facts,
            settings.paths.directory,
        ),
        cluster,
        "" if role.has_home else front_end_name(settings),
        free_port,
    )
    return compose(composed, stored, rng, rng, now)

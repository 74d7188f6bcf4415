"""Pools of machines that are alike: of one cluster, and of a whole site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from msgspec.structs import replace

from iriai.broker.machines.machine_view import NO_AD, MachineView
from iriai.broker.machines.pools import PoolLoad, pool_of
from iriai.cluster.broker_questions import ClusterReply, missing_text
from iriai.machine.core import Machine
from iriai.model.ad import (
    ARCHITECTURE,
    PROCESSOR,
    PROCESSORS,
    SYSTEM,
    MachineAd,
    attributes_of,
)
from iriai.model.bounds import NUMBER_MAX
from iriai.protocol.messages.effects import Part
from iriai.wire.machines import PoolKind, PoolRow, PoolTable

KINDS_MAX = 8
"""Kinds of machines that a pool is said to have: one, unless its name was configured."""
LENGTH_MAX = 100
"""Of what a machine says that it is: the longest names of processors have half as many."""


def known_pools(machine: Machine, load: tuple[float, float] = (0.0, 0.0)) -> PoolTable:
    """Return the pools that the broker here knows; without one, this machine with its `load`."""
    if Part.BROKER in machine.parts:
        views = list(machine.broker.state.machines.values())
    else:
        views = [_own_view(machine, load)] if Part.NODE in machine.parts else []
    pools: dict[str, list[MachineView]] = {}
    for view in views:
        pools.setdefault(view.pool, []).append(view)
    return PoolTable(tuple(pool_row(name, pools[name]) for name in sorted(pools)))


def pools_without_broker(machine: Machine, load: tuple[float, float], missing: str) -> PoolTable:
    """Return what is known although the broker did not answer: `missing` says why."""
    note = f"{missing}; it has the pools of other machines"
    return replace(known_pools(machine, load), note=note)


def pools_of_site(
    cluster: str, near: PoolTable, others: list[ClusterReply[PoolTable]]
) -> PoolTable:
    """Return the pools of the own cluster, named `cluster`, with those of the others.

    Machines of two clusters are of two pools, whatever their names are.
    """
    if not others:
        return near
    tables = [(cluster, near)] + [(o.cluster, o.answer) for o in others if o.answer is not None]
    rows = [replace(row, cluster=name) for name, table in tables for row in table.rows]
    note = "; ".join(filter(None, (near.note, missing_text(others))))
    return PoolTable(tuple(sorted(rows, key=attrgetter("cluster", "name"))), note)


def pool_row(name: str, views: Iterable[MachineView]) -> PoolRow:
    """Return what is known of a pool with these machines."""
    views = sorted(views, key=attrgetter("name"))
    able = [view for view in views if view.is_available]
    load, speed = PoolLoad.of(able)
    kinds = Counter(_kind_of(view.ad) for view in views).most_common(KINDS_MAX)
    return PoolRow(
        name,
        tuple(replace(kind, machines=machines) for kind, machines in kinds),
        tuple(view.name for view in views),
        len(able),
        sum(view.calendar.capacity.cpus for view in views),
        sum(max(0, view.calendar.free.cpus) for view in able),
        load,
        speed,
    )


def _kind_of(ad: MachineAd) -> PoolKind:
    found = attributes_of(ad)
    architecture, system, processor = (
        str(found.get(name, ""))[:LENGTH_MAX] for name in (ARCHITECTURE, SYSTEM, PROCESSOR)
    )
    processors = found.get(PROCESSORS, 0)
    is_count = isinstance(processors, int) and 0 < processors <= NUMBER_MAX
    return PoolKind(architecture, system, processor, int(processors) if is_count else 0, 1)


def _own_view(machine: Machine, load: tuple[float, float]) -> MachineView:
    """Return this machine as a broker would see it."""
    node = machine.node
    ad = node.settings.ad_now or NO_AD
    view = MachineView(machine.name, node.calendar.capacity, pool_of(ad))
    view.ad, view.speed, view.unavailable = ad, node.settings.speed, node.unavailable()
    view.calendar.free = node.calendar.free
    view.load, view.foreign_load = load
    return view

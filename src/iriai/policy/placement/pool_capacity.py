"""What pools could hold of a parallel task if nothing ran there (docs/spec/011, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, takewhile
from math import ceil
from typing import NamedTuple

from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.policy.placement.seats import Room, rank_fit, ranks_in

Capacities = Mapping[str, Resources]
"""Of the machines of a pool, by name."""
Pools = Mapping[str, Capacities]
"""The machines of each pool."""


class Shortage(NamedTuple):
    """That no pool could ever hold a task."""

    words: str
    """What the largest pool could hold, for people."""
    held: RankShape | None
    """A task that it could hold; None: not one rank."""
    would_fit_across: bool
    """Whether the machines of all pools together could hold the task, which does not ask so."""


def rooms_of(need: Resources, capacities: Capacities) -> list[Room]:
    """Return how often `need`, that of one rank, fits on each empty machine where it does."""
    fits = ((name, rank_fit(need, capacity)) for name, capacity in capacities.items())
    return [Room(name, fit) for name, fit in fits if fit]


def largest_held(rooms: Sequence[Room], shape: RankShape) -> RankShape | None:
    """Return the task most like `shape` that these machines could hold; None: not one rank.

    With fewer ranks on each machine if none holds so many, then on fewer machines, then of fewer
    ranks. A task of the result fits, whatever the least number of ranks of `shape` is.
    """
    if not rooms:
        return None
    per_node, nodes = shape.per_node, shape.nodes
    if per_node is not None:
        per_node = min(per_node, max(room.fit for room in rooms))
    if nodes is not None:
        nodes = min(nodes, sum(room.fit >= (per_node or 1) for room in rooms))
    if nodes is not None and per_node is not None:
        return RankShape(nodes * per_node, nodes * per_node, nodes, per_node)
    ranks = ranks_in(rooms, RankShape(1, shape.most, nodes, per_node))
    return RankShape(ranks, ranks, nodes, per_node)


def least_cpus(need: Resources, shape: RankShape, capacities: Capacities) -> int | None:
    """Return a number of cpus than which the machines of an exclusive task have no fewer.

    None: they could not hold it. Exact where the machines are alike, or a number of ranks on each
    is asked for; else at most what the cheapest choice of machines has.
    """
    rooms = rooms_of(need, capacities)
    if not ranks_in(rooms, shape):
        return None
    each = shape.per_node or (1 if shape.nodes is None else shape.least // shape.nodes)
    able = [room for room in rooms if room.fit >= each]
    cpus = sorted(capacities[room.machine].cpus for room in able)
    if shape.per_node is not None or shape.nodes is not None:
        return sum(cpus[: shape.nodes or ceil(shape.least / each)])
    fits = accumulate(sorted((room.fit for room in able), reverse=True))
    fewest = 1 + sum(1 for _ in takewhile(lambda ranks: ranks < shape.least, fits))
    return max(sum(cpus[:fewest]), _cheapest(able, capacities, shape.least))


def _cheapest(rooms: list[Room], capacities: Capacities, ranks: int) -> int:
    """Return the cpus of the machines with the fewest for each rank, of the last one in part."""
    cpus = Fraction(0)
    for room in sorted(rooms, key=lambda room: capacities[room.machine].cpus / room.fit):
        taken = min(ranks, room.fit)
        cpus += Fraction(capacities[room.machine].cpus * taken, room.fit)
        ranks -= taken
        if not ranks:
            break
    return ceil(cpus)


def shortage(
    need: Resources, shape: RankShape, pools: Pools, *, is_across: bool, which: str = ""
) -> Shortage | None:
    """Return what pools lack that could never hold a task; None: one could, or there are none.

    `which` says which machines of the pools these are, as an adjective; empty: all.
    """
    everything: Capacities = {name: each for pool in pools.values() for name, each in pool.items()}
    all_could = ranks_in(rooms_of(need, everything), shape) > 0
    if not everything or (all_could and is_across):
        return None
    if any(ranks_in(rooms_of(need, pool), shape) for pool in pools.values()):
        return None
    if is_across or len(pools) == 1:
        machines = everything
        whose = f"all {len(machines)} {which}machines together"
        if len(machines) == 1:
            whose = f"the only {which}machine"
    else:
        name, machines = _largest(need, shape, pools)
        plural = "" if len(machines) == 1 else "s"
        whose = f"the largest, {name or 'which has no name,'} of {len(machines)} {which}"
        whose += f"machine{plural},"
    held = largest_held(rooms_of(need, machines), shape)
    could = "none" if held is None else held.words()
    return Shortage(f"{whose} could hold {could}", held, all_could)


def _largest(need: Resources, shape: RankShape, pools: Pools) -> tuple[str, Capacities]:
    """Return the pool that could hold most of a task, of equals the first by name."""

    def size(pool: tuple[str, Capacities]) -> tuple[int, int, int, str]:
        held = largest_held(rooms_of(need, pool[1]), shape)
        if held is None:
            return (0, 0, 0, pool[0])
        return (-held.most, -(held.nodes or 0), -(held.per_node or 0), pool[0])

    return min(pools.items(), key=size)

"""Which machines the ranks of a parallel task go to (docs/spec/011, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iriai.model.ranks import SEATS_MAX, RankShape
from iriai.model.resources import Resources


class Room(NamedTuple):
    """A machine on which ranks of a task may start now."""

    machine: str
    fit: int
    """The ranks that fit, at least 1."""
    tier: int = 0
    """By the ranks of job and owner: machines of a lower one come first."""


class Seat(NamedTuple):
    """The ranks of an attempt on one machine."""

    machine: str
    ranks: int


Seats = Sequence[Seat]
"""Of one attempt, by rank."""


def rank_fit(need: Resources, free: Resources) -> int:
    """Return how often `need` fits into `free`."""
    fit = free.cpus // need.cpus if need.cpus else free.cpus
    if need.memory_bytes:
        fit = min(fit, free.memory_bytes // need.memory_bytes)
    if need.gpus:
        fit = min(fit, free.gpus // need.gpus)
    if need.named:
        have = dict(free.named)
        fit = min(fit, *(have.get(name, 0) // amount for name, amount in need.named))
    return max(0, fit)


def ranks_in(rooms: Sequence[Room], shape: RankShape) -> int:
    """Return the largest number of ranks of `shape` that fit on these machines; 0: none."""
    per_node, nodes = shape.per_node, shape.nodes
    if per_node is not None:
        able = sum(room.fit >= per_node for room in rooms)
        if nodes is None:
            return shape.ranks_below(per_node * min(able, SEATS_MAX))
        ranks = per_node * nodes
        return ranks if able >= nodes and shape.least <= ranks <= shape.most else 0
    if nodes is None:
        fits = sorted((room.fit for room in rooms), reverse=True)[:SEATS_MAX]
        return shape.ranks_below(sum(fits))
    if len(rooms) < nodes:
        return 0
    fits = sorted((room.fit for room in rooms), reverse=True)
    each = fits[nodes - 1]
    more = sum(fit > each for fit in fits)  # fewer than `nodes`
    return shape.ranks_below(nodes * each + more)


def seats_of(rooms: Sequence[Room], shape: RankShape) -> Seats:
    """Return the seats of a task of `shape`, as many ranks as fit; empty: it does not fit.

    `rooms` are in the order in which machines are preferred, but for their tiers. Without a number
    of machines, as few as hold the ranks.
    """
    ranks = ranks_in(rooms, shape)
    if not ranks:
        return []
    if shape.per_node is not None:
        chosen = sorted(rooms, key=lambda room: room.tier)
        able = [room.machine for room in chosen if room.fit >= shape.per_node]
        return [Seat(machine, shape.per_node) for machine in able[: ranks // shape.per_node]]
    if shape.nodes is not None:
        return _spread(sorted(rooms, key=lambda room: room.tier), ranks, shape.nodes)
    seats = _packed(sorted(rooms, key=lambda room: (room.tier, -room.fit)), ranks)
    if len(seats) > SEATS_MAX:  # the preferred are too small
        seats = _packed(sorted(rooms, key=lambda room: -room.fit), ranks)
    return seats


def _packed(rooms: Sequence[Room], ranks: int) -> Seats:
    seats = []
    for room in rooms:
        if not ranks:
            break
        here = min(room.fit, ranks)
        seats.append(Seat(room.machine, here))
        ranks -= here
    return seats


def _spread(rooms: Sequence[Room], ranks: int, nodes: int) -> Seats:
    """Return `nodes` seats whose ranks differ by one at most, those with more first."""
    each, more = divmod(ranks, nodes)
    first = [room.machine for room in rooms if room.fit > each][:more]
    taken = frozenset(first)
    rest = [room.machine for room in rooms if room.fit >= each and room.machine not in taken]
    larger = [Seat(machine, each + 1) for machine in first]
    return larger + [Seat(machine, each) for machine in rest[: nodes - more]]

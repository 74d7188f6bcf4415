"""Time slices of gangs: the rows of an Ousterhout matrix (paper 002; Ousterhout 1982, section 3).

A column is a machine, a row a time slice. All seats of a gang are in one row, so that its ranks run
together; in rows that would leave all of its cpus idle it runs as well. Pure: what runs where is
given, and what runs when is returned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from iriai.model.turn import NEVER, RowSet

GangKey = TypeVar("GangKey", bound=Hashable)


class Gang(NamedTuple, Generic[GangKey]):
    """A task of one or more machines that takes turns."""

    key: GangKey
    precedence: tuple[int, int]
    """Its level and the order of its start: idle slices are filled in this order."""
    cpus: Mapping[str, int]
    """What it takes in its row, by machine."""
    row: int


class GangSlot(NamedTuple):
    """What the matrix says of a gang."""

    row: int
    turn: RowSet


class Holding(NamedTuple, Generic[GangKey]):
    """A claim on one machine that takes turns."""

    key: GangKey
    cpus: int
    mask: int
    """The rows that it needs."""
    end_s: float


def slots(
    gangs: Sequence[Gang[GangKey]], rooms: Mapping[str, int], rows_max: int
) -> dict[GangKey, GangSlot]:
    """Return the row and the turn of each gang; `rooms` are the cpus of machines for gangs.

    A gang keeps its row, or moves to an earlier one if it fits there on all its machines, so that
    there are as few as possible. One that fits in none of `rows_max` stands. Gangs that share no
    machine, not even by others, have cycles of their own.
    """
    found: dict[GangKey, GangSlot] = {}
    for each in _components(gangs):
        found |= slots_of_linked(each, rooms, rows_max)
    return found


def _components(gangs: Sequence[Gang[GangKey]]) -> Iterable[list[Gang[GangKey]]]:
    """Return the gangs by what they share: each machine is in one part at most."""
    joined = list(range(len(gangs)))
    first_on: dict[str, int] = {}
    for number, gang in enumerate(gangs):
        for name in gang.cpus:
            roots = _root(first_on.setdefault(name, number), joined), _root(number, joined)
            joined[max(roots)] = min(roots)
    parts: dict[int, list[Gang[GangKey]]] = {}
    for number, gang in enumerate(gangs):
        parts.setdefault(_root(number, joined), []).append(gang)
    return parts.values()


def _root(number: int, joined: list[int]) -> int:
    """Return the first gang that one is joined with, by others too; shorten the way there."""
    while joined[number] != number:
        joined[number] = number = joined[joined[number]]
    return number


def slots_of_linked(
    gangs: Sequence[Gang[GangKey]], rooms: Mapping[str, int], rows_max: int
) -> dict[GangKey, GangSlot]:
    """Return the same as `slots` for gangs that are known to share machines, by others too."""
    loads: dict[int, dict[str, int]] = {}
    rows: dict[GangKey, int] = {}
    for gang in sorted(gangs, key=lambda each: (each.row, each.precedence)):
        earlier = [row for row in sorted(loads) if row < gang.row]
        for row in (*earlier, *range(gang.row, rows_max), *range(min(gang.row, rows_max))):
            if _fits(gang, loads.get(row, {}), rooms):
                rows[gang.key] = row
                _take(gang, loads.setdefault(row, {}))
                break
    place_of = {row: place for place, row in enumerate(sorted(loads))}
    masks = {key: 1 << place_of[row] for key, row in rows.items()}
    for gang in sorted(gangs, key=lambda each: each.precedence):
        own = rows.get(gang.key)
        for row, place in place_of.items() if own is not None else ():
            if row != own and _fits(gang, loads[row], rooms):
                masks[gang.key] |= 1 << place
                _take(gang, loads[row])
    found = dict.fromkeys((gang.key for gang in gangs), GangSlot(0, NEVER))
    for key, row in rows.items():
        found[key] = GangSlot(place_of[row], RowSet(len(place_of), masks[key]))
    return found


def _fits(gang: Gang[GangKey], load: Mapping[str, int], rooms: Mapping[str, int]) -> bool:
    return all(load.get(name, 0) + cpus <= rooms[name] for name, cpus in gang.cpus.items())


def _take(gang: Gang[GangKey], load: dict[str, int]) -> None:
    for name, cpus in gang.cpus.items():
        load[name] = load.get(name, 0) + cpus


def held_cpus(holdings: Iterable[Holding[GangKey]]) -> dict[GangKey, int]:
    """Return the cpus of each claim of a machine for its calendar: together the most of any row.

    A claim holds what its end frees, should all end when they are to: so a calendar that adds up
    tells when there is room for what runs in all slices.
    """
    held: dict[GangKey, int] = {}
    loads: dict[int, int] = {}
    most = 0
    ordered = sorted(holdings, key=attrgetter("end_s"))
    ordered.reverse()  # as if the last to end were alone, then each before it came
    for each in ordered:
        before = most
        for row in _rows_of(each.mask):
            loads[row] = loads.get(row, 0) + each.cpus
            most = max(most, loads[row])
        held[each.key] = most - before
    return held


def _rows_of(mask: int) -> Sequence[int]:
    if mask & (mask - 1):
        return [row for row in range(mask.bit_length()) if mask >> row & 1]
    return (mask.bit_length() - 1,) if mask else ()

"""The first time at which so many machines can be booked together.

Machines come in the order in which they are preferred. `resources` are those that each gives; None:
all that it has. Nothing is kept but by `GapIndex`, for whole machines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from math import frexp, inf, ldexp, nextafter
from typing import Any

from iriai.model.resources import Resources
from iriai.policy.placement.calendar import Calendar

Calendars = Mapping[str, Calendar[Any]]
Run = tuple[float, float]
"""A time in which a machine is free: its start, and its end."""
Gap = tuple[float, float, str]
"""The same, with the machine."""

RUNS_LOOKED_AT = 256
"""By default at least so many starts of gaps are taken together."""
REBUILT_PART = 0.1
"""By default, if more of all machines changed, the index is sorted anew."""
ROUNDING = 1e-6
"""Of times; gaps that nearly have a length are compared one by one."""
LISTED_PART = 0.25
"""If fewer of all machines are free, they are listed; else machines are asked by preference."""
ENDLESS = 2_000
"""The class of gaps without end or start; lengths in seconds are below 2 ** 1024."""


def earliest_start(
    calendars: Calendars,
    nodes: int,
    resources: Resources | None,
    length_s: float,
    from_s: float,
    latest_s: float = inf,
    index: GapIndex | None = None,
) -> tuple[float, list[str]] | None:
    """Return the first start at which `nodes` machines can be booked for so long, and which.

    None: there is none, or it is later than `latest_s`. `index` has the calendars of these machines
    and perhaps of others; it is used for whole machines.
    """
    if nodes > len(calendars):
        return None
    if index is None or resources is not None:

        def run_from(name: str, start_s: float) -> Run | None:
            calendar = calendars[name]
            asked = calendar.capacity if resources is None else resources
            return calendar.bookable_run(asked, length_s, start_s)

    elif len(index) == len(calendars):
        start_s = index.earliest_start_s(nodes, length_s, from_s, latest_s)
        if start_s is None:
            return None
        return start_s, index.bookable(calendars, nodes, start_s, start_s + length_s)
    else:
        whole = index

        def run_from(name: str, start_s: float) -> Run | None:
            return whole.run_from(name, length_s, start_s)

    return earliest_of(list(calendars), nodes, run_from, length_s, from_s, latest_s)


def bookable(
    calendars: Calendars,
    nodes: int,
    resources: Resources | None,
    start_s: float,
    end_s: float,
    index: GapIndex | None = None,
) -> list[str]:
    """Return the first machines that can be booked for that time, and at most `nodes`."""
    if index is not None and resources is None:
        return index.bookable(calendars, nodes, start_s, end_s)
    names: list[str] = []
    for name, calendar in calendars.items():
        if len(names) == nodes:
            break
        asked = calendar.capacity if resources is None else resources
        if calendar.is_bookable(asked, start_s, end_s):
            names.append(name)
    return names


def earliest_of(
    names: list[str],
    nodes: int,
    run_from: Callable[[str, float], Run | None],
    length_s: float,
    from_s: float,
    latest_s: float,
) -> tuple[float, list[str]] | None:
    """Go from one start to the next; `run_from` tells where a machine is free next, and until."""
    waiting: list[tuple[float, int, float]] = []
    """The next run of machines that are not free then: start, place in `names`, end."""
    at_once: list[str] = []
    for place, name in enumerate(names):
        run = run_from(name, from_s)
        if run is None or run[0] > latest_s:
            continue
        waiting.append((run[0], place, run[1]))
        if run[0] == from_s:
            at_once.append(name)
            if len(at_once) == nodes:
                return from_s, at_once
    heapify(waiting)
    free: list[tuple[float, int]] = []
    """Those that are free: end, place."""
    while waiting:
        start_s, place, until_s = heappop(waiting)
        heappush(free, (until_s, place))
        while free and free[0][0] < start_s + length_s:
            _, past = heappop(free)
            run = run_from(names[past], start_s)
            if run is not None and run[0] <= latest_s:
                heappush(waiting, (run[0], past, run[1]))
        if len(free) < nodes:
            continue
        if not waiting or waiting[0][0] > start_s:
            places = sorted(place for _, place in free)[:nodes]
            return start_s, [names[place] for place in places]
    return None


class _GapClass:
    """Gaps of a length from half of `most_s` up to it, in two orders."""

    def __init__(self, most_s: float) -> None:
        self.most_s = most_s
        self.by_start: list[Gap] = []
        """(start, end, machine)."""
        self.by_end: list[Gap] = []
        """(end, start, machine)."""

    def places(self, start_s: float, length_s: float) -> tuple[int, int]:
        """Return how many gaps have begun at a start, and how many end too early for it."""
        begun = bisect_left(self.by_start, (nextafter(start_s, inf),))
        return begun, bisect_left(self.by_end, (start_s + length_s,))

    def open_at(self, start_s: float, end_s: float) -> list[Gap]:
        """Return the gaps that are free all that time."""
        earliest_s = end_s - self.most_s - ROUNDING
        first = bisect_left(self.by_start, (earliest_s,))
        last = bisect_left(self.by_start, (nextafter(start_s, inf),))
        return [gap for gap in self.by_start[first:last] if gap[1] >= end_s]


class GapIndex:
    """The gaps of many calendars: times in which a whole machine is free.

    A gap is open for a start `t` from its own start until its end less the length. So the machines
    that can be booked at `t` are as many as gaps that are long enough and have begun by then, less
    those that end too early: two places in sorted lists. Lengths are classes, each of up to twice
    the one before, so most classes are long enough as a whole, or too short.
    """

    def __init__(self, looked_at: int = RUNS_LOOKED_AT, rebuilt_part: float = REBUILT_PART) -> None:
        self._looked_at = looked_at
        self._rebuilt_part = rebuilt_part
        self._calendars: dict[str, Calendar[Any]] = {}
        self._stale: dict[str, None] = {}
        self._gaps: dict[str, list[Run]] = {}
        self._starts: list[float] = []
        """Of all gaps."""
        self._classes: dict[int, _GapClass] = {}

    def __len__(self) -> int:
        return len(self._calendars)

    def put(self, name: str, calendar: Calendar[Any]) -> None:
        """Note that a machine is new, or its calendar has changed."""
        self._calendars[name] = calendar
        self._stale[name] = None

    def drop(self, name: str) -> None:
        """Remove a machine, if it is there."""
        if self._calendars.pop(name, None) is not None:
            self._stale.pop(name, None)
            for gap in self._gaps.pop(name, ()):
                self._remove(name, gap)

    def bookable(
        self, names: Collection[str], nodes: int, start_s: float, end_s: float
    ) -> list[str]:
        """Return the first of `names` that are free all that time, and at most `nodes`."""
        self.refresh()
        found: list[str] = []
        if self._free_at(start_s, end_s - start_s) < LISTED_PART * len(self):
            open_then = {
                gap[2]: None
                for each in self._classes.values()
                if each.most_s + ROUNDING > end_s - start_s
                for gap in each.open_at(start_s, end_s)
            }
            return list(islice((name for name in names if name in open_then), nodes))
        for name in names:
            if len(found) == nodes:
                break
            gaps = self._gaps[name]
            place = bisect_right(gaps, (start_s, inf)) - 1
            if place >= 0 and gaps[place][1] >= end_s:
                found.append(name)
        return found

    def run_from(self, name: str, length_s: float, from_s: float) -> Run | None:
        """Return where a machine is free for so long, from `from_s` on at the earliest."""
        self.refresh()
        gaps = self._gaps[name]
        for place in range(max(0, bisect_right(gaps, (from_s, inf)) - 1), len(gaps)):
            start_s, end_s = max(gaps[place][0], from_s), gaps[place][1]
            if start_s + length_s <= end_s:
                return start_s, end_s
        return None

    def earliest_start_s(
        self, nodes: int, length_s: float, from_s: float, latest_s: float
    ) -> float | None:
        """Return the first start at which `nodes` machines are free for so long; None: never."""
        self.refresh()
        free = self._free_at(from_s, length_s)
        if free >= nodes:
            return from_s
        classes, partly = self._by_length(length_s)
        starts, place, now_s = self._starts, bisect_right(self._starts, from_s), from_s
        while place < len(starts) and starts[place] <= latest_s:
            # With fewer starts than machines that lack there are not enough.
            last = min(place + max(nodes - free, self._looked_at), len(starts)) - 1
            until_s = starts[last]
            begins, ends = [], []
            for each in chain(classes, partly):
                begun, over = each.places(now_s, length_s)
                begun_then, over_then = each.places(until_s, length_s)
                begins.append(each.by_start[begun:begun_then])
                ends.append(each.by_end[over:over_then])
            for number in range(len(classes), len(begins)):
                begins[number] = [gap for gap in begins[number] if gap[0] + length_s <= gap[1]]
                ends[number] = [gap for gap in ends[number] if gap[1] + length_s <= gap[0]]
            new = sum(map(len, begins))
            if free + new >= nodes:
                start_s = _reached(nodes - free, begins, ends, length_s)
                if start_s is not None:
                    return start_s if start_s <= latest_s else None
            free += new - sum(map(len, ends))
            place, now_s = bisect_right(starts, until_s, last), until_s
        return None

    def check(self) -> None:
        """Raise where the index differs from the calendars."""
        self.refresh()
        assert self._gaps.keys() == self._calendars.keys()
        for name, calendar in self._calendars.items():
            assert self._gaps[name] == calendar.gaps(), f"gaps of {name}"
        gaps = sorted((*gap, name) for name, each in self._gaps.items() for gap in each)
        assert self._starts == [gap[0] for gap in gaps], "starts of gaps"
        assert gaps == sorted(chain(*(each.by_start for each in self._classes.values())))
        for each in self._classes.values():
            assert each.by_start == sorted(each.by_start), "gaps by start"
            assert each.by_end == sorted((end, start, name) for start, end, name in each.by_start)

    def refresh(self) -> None:
        """Take in what changed; each question does it first."""
        if not self._stale:
            return
        is_rebuilt = len(self._stale) > self._rebuilt_part * len(self._calendars)
        for name in self._stale:
            before, after = self._gaps.get(name, []), self._calendars[name].gaps()
            self._gaps[name] = after
            if not is_rebuilt and before != after:
                old, new = dict.fromkeys(before), dict.fromkeys(after)
                for gap in before:
                    if gap not in new:
                        self._remove(name, gap)
                for gap in after:
                    if gap not in old:
                        self._insert(name, gap)
        self._stale.clear()
        if is_rebuilt:
            self._rebuild()

    def _rebuild(self) -> None:
        self._classes.clear()
        gaps = sorted((*gap, name) for name, each in self._gaps.items() for gap in each)
        self._starts = [gap[0] for gap in gaps]
        for gap in gaps:
            self._class_of(gap[1] - gap[0]).by_start.append(gap)
        for each in self._classes.values():
            each.by_end = sorted((end, start, name) for start, end, name in each.by_start)

    def _class_of(self, length_s: float) -> _GapClass:
        number = ENDLESS if length_s == inf else frexp(length_s)[1]
        found = self._classes.get(number)
        if found is None:
            most_s = inf if number == ENDLESS else ldexp(1.0, number)
            found = self._classes[number] = _GapClass(most_s)
        return found

    def _insert(self, name: str, gap: Run) -> None:
        start_s, end_s = gap
        insort(self._starts, start_s)
        gaps = self._class_of(end_s - start_s)
        insort(gaps.by_start, (start_s, end_s, name))
        insort(gaps.by_end, (end_s, start_s, name))

    def _remove(self, name: str, gap: Run) -> None:
        start_s, end_s = gap
        del self._starts[bisect_left(self._starts, start_s)]
        gaps = self._class_of(end_s - start_s)
        del gaps.by_start[bisect_left(gaps.by_start, (start_s, end_s, name))]
        del gaps.by_end[bisect_left(gaps.by_end, (end_s, start_s, name))]

    def _by_length(self, length_s: float) -> tuple[list[_GapClass], list[_GapClass]]:
        """Return the classes of gaps that are long enough, and those of which some are."""
        whole, partly = [], []
        for each in self._classes.values():
            if each.most_s / 2 > length_s + ROUNDING:
                whole.append(each)
            elif each.most_s + ROUNDING > length_s:
                partly.append(each)
        return whole, partly

    def _free_at(self, start_s: float, length_s: float) -> int:
        """Return how many machines are free for so long."""
        whole, partly = self._by_length(length_s)
        free = sum(len(each.open_at(start_s, start_s + length_s)) for each in partly)
        for each in whole:
            begun, over = each.places(start_s, length_s)
            free += begun - over
        return free


def _reached(
    lacking: int, begins: list[list[Gap]], ends: list[list[Gap]], length_s: float
) -> float | None:
    """Return the first start at which so many more are free; None: there is none."""
    place, overs = 0, sorted(end[0] for each in ends for end in each)
    for start_s in sorted(begin[0] for each in begins for begin in each):
        while place < len(overs) and overs[place] < start_s + length_s:
            place += 1
            lacking += 1
        lacking -= 1
        if lacking <= 0:
            return start_s
    return None

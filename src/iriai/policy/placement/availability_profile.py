"""The availability profile of a machine: what is free from now on, by claims and plans."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, islice
from math import inf
from operator import attrgetter, ge

from iriai.model.ranks import RANKS_MAX
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.policy_api import Claimed

NEEDS_KEPT = 4096
"""Different needs that are remembered; each plan looks at those of all that wait."""


@lru_cache(NEEDS_KEPT)
def _needs(resources: Resources) -> tuple[tuple[str, int], ...]:
    """Return the resources that are needed, and how much of each."""
    return tuple(each for each in resources.amounts() if each[1])


class AvailabilityProfile:
    """Free resources as steps of time; from the last step on they stay as they are.

    There is a column for each resource, so a plan changes some integers and makes no objects.
    """

    def __init__(
        self,
        capacity: Resources,
        claimed: Iterable[Claimed],
        now_s: float,
        booked: Iterable[Claimed] = (),
    ) -> None:
        """`claimed` is held from now on, `booked` from later starts on."""
        self.capacity = capacity
        # What is past its end still holds its place, and counts as ending now.
        held = sorted((each for each in claimed if each.end_s > now_s), key=attrgetter("end_s"))
        self._times = [now_s, *dict.fromkeys(each.end_s for each in held)]
        self._columns: dict[str, list[int]] = {}
        """What is free from each of the times on, by resource."""
        self._most: dict[str, list[int]] = {}
        """The most that is free up to each of the times, by resource; empty: not computed since a
        change."""
        for name, amount in capacity.amounts():
            if amount:
                self._columns[name] = self._column(name, amount, held)
        for each in booked:
            self._book(each, max(now_s, each.start_s))

    def _book(self, booked: Claimed, start_s: float) -> None:
        """Take what is booked, of which the machine may have lost some."""
        if start_s < booked.end_s:
            first, last = self._steps(start_s, booked.end_s - start_s)
            for name, amount in _needs(booked.resources):
                column = self._columns.get(name, [])
                column[first:last] = [free - amount for free in column[first:last]]

    def _column(self, name: str, amount: int, held: list[Claimed]) -> list[int]:
        """Return what is free of one resource from each of the times on."""
        ends: dict[float, int] = {}
        for each in held:
            taken = dict(_needs(each.resources)).get(name, 0)
            ends[each.end_s] = ends.get(each.end_s, 0) + taken
        return list(accumulate((amount - sum(ends.values()), *ends.values())))

    def reserve(self, resources: Resources, start_s: float, stay_s: float | None) -> None:
        """Plan `resources` from `start_s` on; the caller has asked `earliest_s`."""
        first, last = self._steps(start_s, stay_s)
        for name, amount in _needs(resources):
            column = self._columns[name]
            column[first:last] = [free - amount for free in column[first:last]]

    def give(self, resources: Resources, start_s: float, stay_s: float | None) -> None:
        """Take a plan back."""
        first, last = self._steps(start_s, stay_s)
        for name, amount in _needs(resources):
            column = self._columns[name]
            column[first:last] = [free + amount for free in column[first:last]]

    def is_earliest(self, resources: Resources, start_s: float) -> bool:
        """Return whether a plan for that start is sound and has no room at all before it.

        All that is reserved has to be sound for that: no more than there is, at any time.
        """
        if not self._most:
            for name, column in self._columns.items():
                self._most[name] = list(accumulate(column, max)) if min(column) >= 0 else []
        place = bisect_left(self._times, start_s)
        if not all(self._most.values()):
            return False
        return not place or any(
            self._most[name][place - 1] < amount for name, amount in _needs(resources)
        )

    def earliest_s(self, resources: Resources, stay_s: float | None, now_s: float) -> float | None:
        """The first moment from which `resources` are free for as long; None: never."""
        if not resources.fits_in(self.capacity):
            return None
        stay_s = OPEN_END_S if stay_s is None else stay_s
        times, needs = self._times, _needs(resources)
        if len(needs) == 1:
            ((name, least),) = needs
            free = self._columns[name]
        else:
            each_step = zip(*(self._columns[name] for name, _ in needs), strict=True)
            amounts = [amount for _, amount in needs]
            free = [int(all(map(ge, step, amounts))) for step in each_step]
            least = 1
        start_s: float | None = now_s
        for place in range(max(0, bisect_right(times, now_s) - 1), len(times)):
            if free[place] < least:
                start_s = None
                continue
            if start_s is None:
                start_s = times[place]
            if place + 1 == len(times) or times[place + 1] >= start_s + stay_s:
                return start_s
        return None

    def times_from(self, now_s: float) -> Iterator[float]:
        """Yield `now_s`, then the later moments at which something changes."""
        yield now_s
        yield from islice(self._times, bisect_right(self._times, now_s), None)

    def fit(self, need: Resources, start_s: float, stay_s: float | None) -> int:
        """Return how often `need` fits from `start_s` on, for as long as it stays."""
        if not need.fits_in(self.capacity):
            return 0
        end_s = start_s + (OPEN_END_S if stay_s is None else stay_s)
        first = max(0, bisect_right(self._times, start_s) - 1)
        last = max(first + 1, bisect_left(self._times, end_s))
        needs = _needs(need)
        fits = (min(self._columns[name][first:last]) // amount for name, amount in needs)
        return max(0, min(fits, default=RANKS_MAX))

    def lasting_s(self, resources: Resources, start_s: float) -> float:
        """Return for how long `resources` are free from `start_s` on; infinity: for ever."""
        needs, times = _needs(resources), self._times
        for place in range(max(0, bisect_right(times, start_s) - 1), len(times)):
            if any(self._columns[name][place] < amount for name, amount in needs):
                return max(0.0, times[place] - start_s)
        return inf

    def _steps(self, start_s: float, stay_s: float | None) -> tuple[int, int]:
        """Return the first step of a plan, and the first after it."""
        end_s = start_s + (OPEN_END_S if stay_s is None else stay_s)
        self._most.clear()
        times, places = self._times, []
        for time_s in (start_s, end_s):
            place = bisect_left(times, time_s)
            if place == len(times) or times[place] != time_s:
                times.insert(place, time_s)
                for column in self._columns.values():
                    column.insert(place, column[place - 1])
            places.append(place)
        return places[0], places[1]

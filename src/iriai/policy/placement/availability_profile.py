"""The availability profile of a machine: what is free from now on, by claims and plans."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from iriai.model.resources import Resources
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.policy_api import Claimed


class AvailabilityProfile:
    """Free resources as steps of time; from the last step on they stay as they are."""

    def __init__(self, capacity: Resources, claimed: Iterable[Claimed], now_s: float) -> None:
        self._capacity = capacity
        self._times = [now_s]
        self._free = [capacity]
        for each in claimed:
            # What is past its end still holds its place, and counts as ending now.
            if each.end_s > now_s:
                self.reserve(each.resources, now_s, each.end_s - now_s)

    def reserve(self, resources: Resources, start_s: float, stay_s: float | None) -> None:
        """Plan `resources` from `start_s` on; the caller has asked `earliest_s`."""
        self._change(resources, start_s, stay_s, is_taken=True)

    def give(self, resources: Resources, start_s: float, stay_s: float | None) -> None:
        """Take a plan back."""
        self._change(resources, start_s, stay_s, is_taken=False)

    def earliest_s(self, resources: Resources, stay_s: float | None, now_s: float) -> float | None:
        """The first moment from which `resources` are free for as long; None: never."""
        if not resources.fits_in(self._capacity):
            return None
        stay_s = OPEN_END_S if stay_s is None else stay_s
        times, free = self._times, self._free
        start_s: float | None = now_s
        for place in range(max(0, bisect_right(times, now_s) - 1), len(times)):
            if not resources.fits_in(free[place]):
                start_s = None
                continue
            if start_s is None:
                start_s = times[place]
            if place + 1 == len(times) or times[place + 1] >= start_s + stay_s:
                return start_s
        return None

    def _change(
        self, resources: Resources, start_s: float, stay_s: float | None, *, is_taken: bool
    ) -> None:
        end_s = start_s + (OPEN_END_S if stay_s is None else stay_s)
        first, last = self._step_at(start_s), self._step_at(end_s)
        free = self._free
        for place in range(first, last):
            before = free[place]
            free[place] = before.minus(resources) if is_taken else before.plus(resources)

    def _step_at(self, time_s: float) -> int:
        """The step that begins then, made where there is none."""
        times = self._times
        place = bisect_left(times, time_s)
        if place == len(times) or times[place] != time_s:
            times.insert(place, time_s)
            self._free.insert(place, self._free[place - 1] if place else self._capacity)
        return place

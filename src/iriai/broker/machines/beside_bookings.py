"""What may start on a machine beside its bookings, by its calendar (docs/spec/017, section 3).

The machine decides; who asks it in vain has lost a moment.
"""

from __future__ import annotations

from typing import Any

from iriai.broker.queue.entries import TaskClassKey
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import Calendar

EARLIER_S = 1.0
"""By so much earlier than told a booking counts as begun: a match is under way for a moment, and
what a broker knows of a machine's time is as old as the message that told it."""


def is_beside(
    calendar: Calendar[Any], key: TaskClassKey, resources: Resources, now_s: float
) -> bool:
    """Return whether a task that takes `resources` there may start now.

    One that is evictable may if it can stay for a while.
    """
    if calendar.fits(resources, now_s, key.stay_s):
        return True
    return key.least_s is not None and calendar.fitting_s(resources, now_s) >= key.least_s


def ranks_beside(calendar: Calendar[Any], key: TaskClassKey, ranks: int, now_s: float) -> int:
    """Return how many of so many ranks may start there now."""
    if key.exclusive:
        return ranks if is_beside(calendar, key, calendar.capacity, now_s) else 0
    low, high = 0, ranks
    while low < high:
        middle = (low + high + 1) // 2
        if is_beside(calendar, key, key.resources.times(middle), now_s):
            low = middle
        else:
            high = middle - 1
    return low


def held_s(
    calendar: Calendar[Any], key: TaskClassKey, resources: Resources, now_s: float
) -> float | None:
    """Return for how long a task that starts there now keeps its place; None: open.

    An evictable one leaves for the first booking that it is in the way of, and one that is inside
    a booking with that.
    """
    stay_s = key.stay_s
    if key.reservation is not None:
        own = (each for each in calendar.bookings if each.reservation == key.reservation)
        left_s = next((each.end_s for each in own if not each.is_beside), now_s)
        left_s = max(0.0, left_s - now_s)
        return left_s if stay_s is None else min(stay_s, left_s)
    if key.least_s is None or calendar.fits(resources, now_s, stay_s):
        return stay_s
    fitting_s = calendar.fitting_s(resources, now_s)
    return stay_s if fitting_s < key.least_s else fitting_s


def starts_before_bookings(calendar: Calendar[Any], planned_s: float | None, now_s: float) -> bool:
    """Return whether so long a time from now is over before the next booking opens."""
    ahead = [each.start_s for each in calendar.bookings if not each.is_open]
    return not ahead or (planned_s is not None and now_s + planned_s <= min(ahead))

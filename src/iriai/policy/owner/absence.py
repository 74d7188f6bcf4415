"""For how long an owner who is away stays away, learnt from when they came back (spec 016, 5b).

For each hour of the week, and by how long the machine has been idle, it counts the hours that were
seen idle and how often the owner came back in them. The quotient is a rate of return; where an hour
of the week was hardly seen, the same hour of all days counts, and before that all hours. From the
rates of the hours to come follows the time after which the owner is back with an even chance: the
median of the time to the first event of a Poisson process whose rate changes. The mean would say of
each pause that it lasts hours, since a few do. Counts lose half their weight in four weeks. Hours
are those of UTC: a week is a week anywhere, and an hour that moves twice a year is learnt again.
"""

from __future__ import annotations

import struct
from math import inf, isfinite, log

HOUR_S, WEEK_S = 3_600.0, 7 * 86_400.0
DAY_HOURS, WEEK_HOURS = 24, 168
IDLE_S = (0.0, 600.0, 3_600.0, 4 * 3_600.0)
"""From where on each class of idle times begins: a pause, a meeting, half a day, a night."""
CLASSES = len(IDLE_S)
HORIZON_S = WEEK_S
"""No longer absence is expected."""
HALF_LIFE_S = 4 * WEEK_S
FIRST_RETURNS, FIRST_HOURS = 1.0, 2.0
"""What counts as seen before anything was: one return in two hours."""
ALL_HOURS, DAY_HOURS_WEIGHT = 2.0, 1.0
"""As so many hours count those of all days where one hour of the day is asked for, and those of the
same hour of all days where one of the week is."""
COUNTS = CLASSES * WEEK_HOURS
KEPT = struct.Struct(f"<{2 * COUNTS}f")
"""Hours and returns, as they are stored: 5,376 bytes."""
KEPT_MAX = 1e9
"""No count is larger."""


class Absences:
    """What one machine has learnt; it is told at each change, and at any moments between."""

    def __init__(self, kept: bytes = b"") -> None:
        """`kept` is what `stored` gave once; anything else counts as nothing."""
        counts = _counts_of(kept)
        self._hours, self._returns = counts[:COUNTS], counts[COUNTS:]
        self._since_s: float | None = None
        """Since when the machine is idle (steady clock); None: it is in use, or not known."""
        self.seen_s = 0.0
        """Until when it was looked at, on the steady clock ..."""
        self._seen_wall_s = 0.0
        """... and on the wall."""
        self._faded_wall_s: float | None = None
        self._told: tuple[float, float] | None = None
        """When it was last asked (steady clock), and what the answer was."""
        self._sum_up()

    # --- learning --------------------------------------------------------------------------------

    def look(
        self, steady_s: float, wall_s: float, *, is_idle: bool, is_return: bool = True
    ) -> None:
        """Take in that the machine is idle, or in use.

        `is_return`: it came in use since its owner came; otherwise nobody knows, and nothing is
        learnt from how the idle time ended.
        """
        since_s = self._since_s
        if since_s is not None:
            self._pass(since_s, steady_s)
        if not is_idle:
            if since_s is not None and is_return:
                self._returned(max(0.0, steady_s - since_s), wall_s)
            self._since_s = None
        elif since_s is None:
            self._since_s = steady_s
        if self._told is not None and (is_idle is not (since_s is not None)):
            self._told = None
        self.seen_s, self._seen_wall_s = steady_s, wall_s

    def _pass(self, since_s: float, steady_s: float) -> None:
        """Count the idle time since it was last looked at."""
        passed_s = min(steady_s - self.seen_s, HORIZON_S)
        if passed_s <= 0.0:
            return
        idle_s = max(0.0, self.seen_s - since_s)
        wall_s = self._seen_wall_s
        self._fade(wall_s)
        while passed_s > 0.0:
            place, step_s = _place(idle_s, wall_s)
            step_s = min(step_s, passed_s)
            self._count(self._hours, self._sums[0], place, step_s / HOUR_S)
            idle_s, wall_s, passed_s = idle_s + step_s, wall_s + step_s, passed_s - step_s

    def _returned(self, idle_s: float, wall_s: float) -> None:
        # The moment belongs to the idle time before it, whose hours were counted.
        place, _ = _place(max(0.0, idle_s - MOMENT_S), wall_s - MOMENT_S)
        self._count(self._returns, self._sums[1], place, 1.0)

    def _count(self, counts: list[float], sums: Sums, place: int, by: float) -> None:
        counts[place] += by
        kind, hour = divmod(place, WEEK_HOURS)
        sums.days[kind * DAY_HOURS + hour % DAY_HOURS] += by
        sums.whole[kind] += by

    def _fade(self, wall_s: float) -> None:
        """Let old counts weigh less, once a day."""
        before_s = self._faded_wall_s
        if before_s is None or wall_s < before_s:
            self._faded_wall_s = wall_s
            return
        if wall_s - before_s < DAY_HOURS * HOUR_S:
            return
        # A clock that was set must not wipe out what was learnt.
        part = 0.5 ** (min(wall_s - before_s, WEEK_S) / HALF_LIFE_S)
        self._faded_wall_s = wall_s
        self._hours = [each * part for each in self._hours]
        self._returns = [each * part for each in self._returns]
        self._sum_up()

    def _sum_up(self) -> None:
        self._sums = Sums(self._hours), Sums(self._returns)

    # --- what follows from it --------------------------------------------------------------------

    def expected_s(self, steady_s: float, wall_s: float) -> float:
        """Return for how many seconds the machine stays idle with an even chance; in use: 0."""
        since_s = self._since_s
        if since_s is None:
            return 0.0
        told = self._told
        if told is not None and 0.0 <= steady_s - told[0] < TOLD_FOR_S:
            return max(0.0, told[1] - (steady_s - told[0]))
        expected_s = self._expected_s(max(0.0, steady_s - since_s), wall_s)
        self._told = steady_s, expected_s
        return expected_s

    def _expected_s(self, idle_s: float, wall_s: float) -> float:
        ahead_s, left = 0.0, log(2.0)  # of the sum of rates over time, until the chance is even
        while ahead_s < HORIZON_S:
            place, step_s = _place(idle_s + ahead_s, wall_s + ahead_s)
            rate = self._rate(place) / HOUR_S
            if rate * step_s >= left:
                return min(ahead_s + left / rate, HORIZON_S)
            left -= rate * step_s
            ahead_s += step_s
        return HORIZON_S

    def _rate(self, place: int) -> float:
        """Return how often in an hour the owner comes back, in one hour of the week."""
        kind, hour = divmod(place, WEEK_HOURS)
        day = kind * DAY_HOURS + hour % DAY_HOURS
        hours, returns = self._sums
        rate = (returns.whole[kind] + FIRST_RETURNS) / (hours.whole[kind] + FIRST_HOURS)
        rate = (returns.days[day] + ALL_HOURS * rate) / (hours.days[day] + ALL_HOURS)
        weight = DAY_HOURS_WEIGHT
        return (self._returns[place] + weight * rate) / (self._hours[place] + weight)

    def stored(self) -> bytes:
        """Return what a later daemon begins with."""
        return KEPT.pack(*self._hours, *self._returns)


class Sums:
    """Counts of the hours of the week added up, by class."""

    def __init__(self, counts: list[float]) -> None:
        self.days = [0.0] * (CLASSES * DAY_HOURS)
        """By class and hour of the day."""
        self.whole = [0.0] * CLASSES
        for place, count in enumerate(counts):
            kind, hour = divmod(place, WEEK_HOURS)
            self.days[kind * DAY_HOURS + hour % DAY_HOURS] += count
            self.whole[kind] += count


MOMENT_S = 1e-3
TOLD_FOR_S = 60.0
"""An answer holds so long, less the time that has passed: reports ask for each task."""


def _place(idle_s: float, wall_s: float) -> tuple[int, float]:
    """Return where a moment counts, and in how many seconds that changes."""
    kind = CLASSES - 1
    while IDLE_S[kind] > idle_s:
        kind -= 1
    hour_s = wall_s % HOUR_S
    hour = int((wall_s - hour_s) // HOUR_S) % WEEK_HOURS
    next_kind_s = IDLE_S[kind + 1] - idle_s if kind + 1 < CLASSES else inf
    return kind * WEEK_HOURS + hour, max(MOMENT_S, min(HOUR_S - hour_s, next_kind_s))


def _counts_of(kept: bytes) -> list[float]:
    if len(kept) == KEPT.size:
        counts = list(KEPT.unpack(kept))
        if all(isfinite(each) and 0.0 <= each <= KEPT_MAX for each in counts):
            return counts
    return [0.0] * (2 * COUNTS)

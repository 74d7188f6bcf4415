"""Usage that counts in full for a sliding window of time (paper 000, section 5.2.1).

The time is cut into buckets, a 32nd of the window each; see docs/spec/003, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from iriai.model.ids import Account
from iriai.model.records import BUCKETS, DAY_S, Bucket, LedgerRow
from iriai.policy.accounting.decay import Counter, Decay, UseSum
from iriai.policy.accounting.runtime_estimates import RunTimes


@dataclass(frozen=True, slots=True)
class WindowCounter:
    """Charges of one machine for one account within the window. It satisfies `decay.Counter`."""

    window_s: float
    buckets: tuple[Bucket, ...] = ()
    """Ascending by number; at most `BUCKETS + 1`."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.window_s) and self.window_s > 0):
            raise ValueError(f"window_s is {self.window_s}; it must be more than 0")

    @staticmethod
    def restored(window_s: float, row: LedgerRow) -> WindowCounter:
        """A stored counter; where the rule has changed since, it goes on with the new one.

        What was counted otherwise is read as use made when its bucket, or its epoch, began.
        """
        counter = WindowCounter(window_s)
        if row.bucket_s == counter.bucket_s:
            return replace(counter, buckets=row.buckets)
        if not row.bucket_s:
            return counter.charged(row.counter, row.advance, row.epoch_wall_s)
        for number, charge_s, advance_s in row.buckets:
            counter = counter.charged(charge_s, advance_s, number * row.bucket_s)
        return counter

    @property
    def bucket_s(self) -> float:
        """How long each bucket is."""
        return self.window_s / BUCKETS

    def charged(self, charge_s: float, advance_s: float, wall_s: float) -> WindowCounter:
        """With a charge of `charge_s` at `wall_s`, of which urgency is `advance_s`.

        Raises:
            ValueError: the charge is negative or not finite; a counter never falls.
        """
        if not (math.isfinite(charge_s) and charge_s >= 0):
            raise ValueError(f"charge of {charge_s} s")
        number = math.floor(wall_s / self.bucket_s)
        kept, last = self.buckets, Bucket(number, 0.0, 0.0)
        if kept and kept[-1].number >= number:
            kept, last = kept[:-1], kept[-1]
        last = Bucket(last.number, last.charge_s + charge_s, last.advance_s + advance_s)
        return replace(self, buckets=(*_within(kept, last.number), last))

    def at(self, wall_s: float) -> float:
        """See `decay.Counter`."""
        position = wall_s / self.bucket_s
        return sum(each.charge_s * part_within(each.number, position) for each in self.buckets)

    def advance_at(self, wall_s: float) -> float:
        """See `decay.Counter`."""
        position = wall_s / self.bucket_s
        return sum(each.advance_s * part_within(each.number, position) for each in self.buckets)

    def merged(self, other: WindowCounter) -> WindowCounter:
        """Of two copies of one counter what is later in each bucket, which is the larger.

        Raises:
            ValueError: the windows differ.
        """
        if self.window_s != other.window_s:
            raise ValueError(f"windows of {self.window_s} and {other.window_s} s differ")
        by_number = {each.number: each for each in self.buckets}
        for each in other.buckets:
            mine = by_number.get(each.number, each)
            by_number[each.number] = max(mine, each, key=lambda bucket: bucket[1:])
        return self._of(by_number)

    def plus(self, other: WindowCounter) -> WindowCounter:
        """See `decay.Counter`; both have one window."""
        by_number = {each.number: each for each in self.buckets}
        for each in other.buckets:
            mine = by_number.get(each.number, Bucket(each.number, 0.0, 0.0))
            by_number[each.number] = Bucket(each.number, mine[1] + each[1], mine[2] + each[2])
        return self._of(by_number)

    def beyond(self, other: WindowCounter) -> WindowCounter:
        """See `decay.Counter`, bucket by bucket; both have one window."""
        theirs = {each.number: each for each in other.buckets}
        more = []
        for each in self.buckets:
            _, charge_s, advance_s = theirs.get(each.number, Bucket(each.number, 0.0, 0.0))
            if each.charge_s > charge_s:
                advance_s = max(0.0, each.advance_s - advance_s)
                more.append(Bucket(each.number, each.charge_s - charge_s, advance_s))
        return replace(self, buckets=tuple(more))

    def _of(self, by_number: dict[int, Bucket]) -> WindowCounter:
        if not by_number:
            return self
        latest = max(by_number)
        return replace(self, buckets=_within(tuple(sorted(by_number.values())), latest))

    def row(self, account: Account, times: RunTimes) -> LedgerRow:
        """As it is stored and published."""
        return LedgerRow(
            account,
            0.0,
            0.0,
            times.runs,
            times.run_s,
            bucket_s=self.bucket_s,
            buckets=self.buckets,
        )


def part_within(number: int, position: float) -> float:
    """How much of a bucket is in the window that ends at `position`, both counted in buckets."""
    return min(1.0, max(0.0, number + 1 + BUCKETS - position))


def _within(buckets: tuple[Bucket, ...], latest: int) -> tuple[Bucket, ...]:
    """Those that may count when `latest` is the bucket of now."""
    return tuple(each for each in buckets if each.number >= latest - BUCKETS)


Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class WindowSum(Generic[Key]):
    """The use in many counters, read without looking at each. It satisfies `decay.UseSum`."""

    window_s: float
    _counters: dict[Key, WindowCounter] = field(default_factory=dict)
    _totals: dict[int, float] = field(default_factory=dict)
    """Of all counters, by the number of the bucket."""

    def merge(self, key: Key, row: LedgerRow) -> None:
        """A counter's copy; of two the later one stays."""
        counter = WindowCounter.restored(self.window_s, row)
        known = self._counters.get(key)
        if known is not None:
            self._add(known, -1)
            counter = known.merged(counter)
        self._counters[key] = counter
        self._add(counter, 1)

    def drop(self, key: Key) -> None:
        """A counter counts no more, where there is one."""
        known = self._counters.pop(key, None)
        if known is not None:
            self._add(known, -1)

    def at(self, wall_s: float) -> float:
        """The sum of all counters, read at `wall_s`, in charged seconds."""
        position = wall_s * BUCKETS / self.window_s
        gone = [number for number in self._totals if not part_within(number, position)]
        if gone:
            self._drop(gone)
        return sum(
            max(0.0, total) * part_within(number, position)
            for number, total in self._totals.items()
        )

    def is_charged_since(self, wall_s: float) -> bool:
        """See `decay.UseSum`."""
        first = math.floor(wall_s * BUCKETS / self.window_s)
        return any(number >= first and total > 0.0 for number, total in self._totals.items())

    def _drop(self, gone: list[int]) -> None:
        """Forget buckets that have left the window, so that they are not looked at again."""
        for number in gone:
            del self._totals[number]
        latest = max(gone)
        for key, counter in self._counters.items():
            kept = tuple(each for each in counter.buckets if each.number > latest)
            self._counters[key] = replace(counter, buckets=kept)

    def _add(self, counter: WindowCounter, sign: int) -> None:
        for number, charge_s, _ in counter.buckets:
            self._totals[number] = self._totals.get(number, 0.0) + sign * charge_s


@dataclass(frozen=True)
class WindowDecay(Decay):
    """Counts all usage in full until it is as old as the window."""

    window_s: float

    @property
    def bucket_s(self) -> float:  # type: ignore[override]
        """How long each bucket is."""
        return self.window_s / BUCKETS

    @property
    def span_s(self) -> float:
        """See `Decay`."""
        return self.window_s

    @property
    def counting_s(self) -> float:
        """See `Decay`."""
        return self.window_s

    def epoch(self, _wall_s: float) -> int:
        """There is one."""
        return 0

    def as_of(self, charge_s: float, made_wall_s: float, wall_s: float) -> float:
        """See `Decay`; as one that is a day older, since what is counted by days ends with them."""
        number = math.floor((made_wall_s - DAY_S) / self.bucket_s)
        return charge_s * part_within(number, wall_s / self.bucket_s)

    def counter(self) -> Counter:
        """See `Decay`."""
        return WindowCounter(self.window_s)

    def restored(self, row: LedgerRow) -> Counter:
        """See `Decay`."""
        return WindowCounter.restored(self.window_s, row)

    def sum(self, _keys: type[Key]) -> UseSum[Key]:
        """See `Decay`."""
        return WindowSum[Key](self.window_s)

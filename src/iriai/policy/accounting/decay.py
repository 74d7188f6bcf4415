"""How past use loses its weight: by half with each half-life, or all at the end of a window."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import floor
from typing import Generic, Protocol, Self, TypeVar

from iriai.config.sections import OrderSection
from iriai.model.account import Account
from iriai.model.records import LedgerRow
from iriai.policy.accounting.fairshare import DecayedUsage, UsageAggregate
from iriai.policy.accounting.runtime_estimates import RunTimes
from iriai.policy.accounting.sliding_window import WindowCounter, WindowSum

Key = TypeVar("Key", bound=Hashable)
Key_contra = TypeVar("Key_contra", bound=Hashable, contravariant=True)


class Counter(Protocol):
    """What one machine charged one account; it never falls but by time."""

    def charged(self, charge_s: float, advance_s: float, wall_s: float) -> Self:
        """With a charge at `wall_s`, of which urgency is `advance_s`."""

    def at(self, wall_s: float) -> float:
        """What counts of it at `wall_s`, in charged seconds."""

    def advance_at(self, wall_s: float) -> float:
        """The part of it that was paid for urgency."""

    def merged(self, other: Self) -> Self:
        """Of two copies of one counter the later."""

    def plus(self, other: Self) -> Self:
        """What both hold together."""

    def beyond(self, other: Self) -> Self:
        """What it holds more than another."""

    def row(self, account: Account, times: RunTimes) -> LedgerRow:
        """As it is stored and published."""


class UseSum(Protocol[Key_contra]):
    """What many counters hold together."""

    def merge(self, key: Key_contra, row: LedgerRow) -> None:
        """A counter's copy; of two the later one stays."""

    def drop(self, key: Key_contra) -> None:
        """A counter counts no more, where there is one."""

    def at(self, wall_s: float) -> float:
        """The sum at `wall_s`, in charged seconds."""


@dataclass(frozen=True, slots=True)
class DecayedCounter:
    """What was charged, and what of it was for urgency, both halved with each half-life."""

    usage: DecayedUsage
    advance: DecayedUsage

    @staticmethod
    def restored(half_life_s: float, row: LedgerRow) -> DecayedCounter:
        """A stored counter; where the rule has changed since, it goes on with the new one.

        Buckets of a window are read as use made when they began.
        """
        counter = DecayedCounter(
            DecayedUsage.restored(half_life_s, row.counter, row.epoch_wall_s),
            DecayedUsage.restored(half_life_s, row.advance, row.epoch_wall_s),
        )
        for number, charge_s, advance_s in row.buckets:
            counter = counter.charged(charge_s, advance_s, number * row.bucket_s)
        return counter

    def charged(self, charge_s: float, advance_s: float, wall_s: float) -> DecayedCounter:
        """See `Counter`."""
        usage = self.usage.charged(charge_s, wall_s)
        advance = self.advance
        if advance_s or advance.counter:
            advance = advance.charged(advance_s, max(wall_s, usage.epoch_wall_s))
        return DecayedCounter(usage, advance)

    def at(self, wall_s: float) -> float:
        """See `Counter`."""
        return self.usage.at(wall_s)

    def advance_at(self, wall_s: float) -> float:
        """See `Counter`."""
        return self.advance.at(wall_s)

    def merged(self, other: DecayedCounter) -> DecayedCounter:
        """See `Counter`."""
        usage = self.usage.merged(other.usage)
        return DecayedCounter(usage, self.advance.merged(other.advance))

    def plus(self, other: DecayedCounter) -> DecayedCounter:
        """See `Counter`."""
        return DecayedCounter(self.usage.plus(other.usage), self.advance.plus(other.advance))

    def beyond(self, other: DecayedCounter) -> DecayedCounter:
        """See `Counter`."""
        return DecayedCounter(self.usage.beyond(other.usage), self.advance.beyond(other.advance))

    def row(self, account: Account, times: RunTimes) -> LedgerRow:
        """See `Counter`."""
        usage, advance = self.usage, self.advance
        return LedgerRow(
            account, usage.counter, usage.epoch_wall_s, times.runs, times.run_s, advance.counter
        )


@dataclass(frozen=True, slots=True)
class Decay:
    """The rule of one cluster; without a window it is the half-life."""

    half_life_s: float
    window_s: float | None = None

    @staticmethod
    def of(section: OrderSection) -> Decay:
        """The rule that the configuration states."""
        return Decay(section.half_life_s, section.window_s)

    @property
    def span_s(self) -> float:
        """The time in which use loses much of its weight."""
        return self.window_s or self.half_life_s

    def epoch(self, wall_s: float) -> int:
        """Counters of an epoch can be compared as of any moment in it; a window has one epoch."""
        return 0 if self.window_s is not None else floor(wall_s / self.half_life_s)

    def counter(self) -> Counter:
        """One that holds nothing."""
        if self.window_s is not None:
            return WindowCounter(self.window_s)
        return DecayedCounter(DecayedUsage(self.half_life_s), DecayedUsage(self.half_life_s))

    def restored(self, row: LedgerRow) -> Counter:
        """A stored or published counter."""
        if self.window_s is not None:
            return WindowCounter.restored(self.window_s, row)
        return DecayedCounter.restored(self.half_life_s, row)

    def sum(self, _keys: type[Key]) -> UseSum[Key]:
        """Of many counters, by keys of this type."""
        if self.window_s is not None:
            return WindowSum[Key](self.window_s)
        return DecayedSum[Key](self.half_life_s)


class DecayedSum(Generic[Key]):
    """Of counters with a half-life. It satisfies `UseSum`."""

    __slots__ = ("_half_life_s", "_sum")

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._sum = UsageAggregate[Key](half_life_s)

    def merge(self, key: Key, row: LedgerRow) -> None:
        """See `UseSum`."""
        self._sum.merge(key, DecayedCounter.restored(self._half_life_s, row).usage)

    def drop(self, key: Key) -> None:
        """See `UseSum`."""
        self._sum.drop(key)

    def at(self, wall_s: float) -> float:
        """See `UseSum`."""
        return self._sum.at(wall_s)

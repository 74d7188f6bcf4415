"""Decay of usage: by half with each half-life."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from iriai.config.sections import OrderSection
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.model.resources import NAMED_KINDS, Resources
from iriai.policy.accounting.runtime_estimates import RunTimes

Key = TypeVar("Key", bound=Hashable)

NEGLIGIBLE_S = 2.0**-60
"""A decayed counter below it is nothing. Without it, halving would end in denormal doubles, which
round, and merging would depend on the order of merges."""

HALF_LIVES_MAX = 1000.0
"""By which a charge is compared with an earlier one: beyond it a double ends."""

_GIBIBYTE = 2.0**30
_DEFAULTS = OrderSection()
_NAMED_WEIGHTS = {
    kind.name: kind.charge_weight / (_GIBIBYTE if kind.unit == "bytes" else 1.0)
    for kind in NAMED_KINDS.values()
}
"""Of one, by kind."""


@dataclass(frozen=True, slots=True)
class ChargeRule:
    """What a second of each resource costs; the fields mean what they do in `[order]`.

    All amounts are charged seconds: a CPU second on a machine of speed 1 at peak time with urgency
    1.
    """

    idle_weight: float = _DEFAULTS.idle_weight
    gpu_weight: float = _DEFAULTS.gpu_weight
    memory_weight: float = _DEFAULTS.memory_weight
    offpeak_factor: float = _DEFAULTS.offpeak_factor

    @staticmethod
    def of(stated: object) -> ChargeRule:
        """Return the rule of a configuration or message, from its attributes of the same names."""
        return msgspec.convert(stated, ChargeRule, from_attributes=True)

    def rate(self, claimed: Resources) -> float:
        """Return the cost of a second of a claim with busy CPUs, at speed 1 and without urgency."""
        return max(1.0, self.idle_weight) * claimed.cpus + self.rate_beside_cpus(claimed)

    def rate_beside_cpus(self, claimed: Resources) -> float:
        """Return the cost of a second of all claimed resources but the CPUs."""
        gibibytes = claimed.memory_bytes / _GIBIBYTE
        rate = self.gpu_weight * claimed.gpus + self.memory_weight * gibibytes
        for name, amount in claimed.named:
            rate += _NAMED_WEIGHTS.get(name, 0.0) * amount
        return rate


def charge(
    claimed: Resources,
    ran_s: float,
    cpu_s: float,
    rule: ChargeRule,
    *,
    speed: float = 1.0,
    urgency: float = 1.0,
    is_offpeak: bool = False,
) -> float:
    """Return the charge for one stretch of one attempt (10 s, or less at its end).

    `ran_s` is the length of the stretch without suspended time, which is not charged; `cpu_s` is
    the CPU time used in it. `speed` is the machine's, relative to 1.
    """
    work_s = max(cpu_s, rule.idle_weight * claimed.cpus * ran_s)
    work_s += rule.rate_beside_cpus(claimed) * ran_s
    return work_s * speed * urgency * (rule.offpeak_factor if is_offpeak else 1.0)


Key_contra = TypeVar("Key_contra", bound=Hashable, contravariant=True)


class Counter(Protocol):
    """Charges of one machine for one account; it falls by time alone."""

    def charged(self, charge_s: float, advance_s: float, wall_s: float) -> Self:
        """Return the counter with a charge at `wall_s`, of which `advance_s` is for urgency."""

    def at(self, wall_s: float) -> float:
        """Return its usage at `wall_s`, in charged seconds."""

    def advance_at(self, wall_s: float) -> float:
        """Return the part of its usage that was paid for urgency."""

    def merged(self, other: Self) -> Self:
        """Return the later of two copies of one counter."""

    def plus(self, other: Self) -> Self:
        """Return the sum of two counters."""

    def beyond(self, other: Self) -> Self:
        """Return the excess over another counter."""

    def row(self, account: Account, times: RunTimes) -> LedgerRow:
        """Return the row in which it is stored and published."""


class UseSum(Protocol[Key_contra]):
    """The sum of many counters."""

    def merge(self, key: Key_contra, row: LedgerRow) -> None:
        """Take a copy of a counter; the later of two stays."""

    def drop(self, key: Key_contra) -> None:
        """Remove a counter, if there is one."""

    def at(self, wall_s: float) -> float:
        """Return the sum at `wall_s`, in charged seconds."""

    def is_charged_since(self, wall_s: float) -> bool:
        """Return whether any was charged since then, or in the epoch or bucket of that time."""


@dataclass(frozen=True, slots=True)
class DecayedCounter:
    """A forward-decay counter: charges weigh half as much after each half-life. A `Counter`.

    Instead of shrinking what it holds, it enlarges what is added: a charge w at time t adds
    `w * 2^(t / half-life)`, reading at `now` multiplies by `2^(-now / half-life)` (Cormode,
    Shkapenyuk, Srivastava, Xu: Forward Decay, ICDE 2009). So the counter only grows, and of two
    copies the larger is the later. To keep doubles small, time counts from an epoch, the last
    whole number of half-lives since 1970; a charge in a later epoch first halves the counter once
    for each epoch between, which is exact in binary.

    A counter is compared, merged and added to only under one half-life.
    """

    half_life_s: float
    epoch: int = 0
    counter: float = 0.0
    """Decayed charge as of the epoch, in seconds; it only grows within an epoch."""
    advance: float = 0.0
    """The part of it that was paid for urgency."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.half_life_s) and self.half_life_s > 0):
            raise ValueError(f"half_life_s is {self.half_life_s}; it must be more than 0")
        if not (0.0 <= self.counter < math.inf and 0.0 <= self.advance < math.inf):
            words = f"counter is {self.counter}, {self.advance} of it for urgency"
            raise ValueError(f"{words}; both must be finite and not below 0")

    @staticmethod
    def restored(half_life_s: float, row: LedgerRow) -> DecayedCounter:
        """A stored counter; where the rule has changed since, it goes on with the new one.

        The counter is then read as use made when its epoch began, so no more than one old
        half-life too early, and buckets of a window as use made when they began.
        """
        epochs = row.epoch_wall_s / half_life_s
        epoch, enlarged = round(epochs), 1.0
        if epoch * half_life_s != row.epoch_wall_s:
            epoch = math.floor(epochs)
            enlarged = math.exp2(epochs - epoch)
        counter = DecayedCounter(half_life_s, epoch, row.counter * enlarged, row.advance * enlarged)
        for number, charge_s, advance_s in row.buckets:
            counter = counter.charged(charge_s, advance_s, number * row.bucket_s)
        return counter

    @property
    def epoch_wall_s(self) -> float:
        """Return when the epoch began, in seconds since 1970."""
        return self.epoch * self.half_life_s

    def charged(self, charge_s: float, advance_s: float, wall_s: float) -> DecayedCounter:
        """See `Counter`; a time before the epoch counts as its begin.

        Raises:
            ValueError: the charge is negative or not finite; a counter never falls.
        """
        if not (math.isfinite(charge_s + advance_s) and charge_s >= 0 and advance_s >= 0):
            raise ValueError(f"charge of {charge_s} s, {advance_s} s of it for urgency")
        epoch = max(self.epoch, math.floor(wall_s / self.half_life_s))
        enlarged = math.exp2(self._half_lives_since(epoch, wall_s))
        counter, advance = self._in_epoch(epoch)
        return DecayedCounter(
            self.half_life_s, epoch, counter + charge_s * enlarged, advance + advance_s * enlarged
        )

    def at(self, wall_s: float) -> float:
        """Return decayed usage in charged seconds at `wall_s`, or at the epoch if that is later."""
        return self.counter * math.exp2(-self._half_lives_since(self.epoch, wall_s))

    def advance_at(self, wall_s: float) -> float:
        """See `Counter`."""
        return self.advance * math.exp2(-self._half_lives_since(self.epoch, wall_s))

    def merged(self, other: DecayedCounter) -> DecayedCounter:
        """Return the later of two copies of one counter, which is the larger.

        Raises:
            ValueError: the half-lives differ.
        """
        if self.half_life_s != other.half_life_s:
            raise ValueError(f"half-lives {self.half_life_s} and {other.half_life_s} s differ")
        return self._combined(other, max)

    def plus(self, other: DecayedCounter) -> DecayedCounter:
        """Return the sum of two counters of one half-life."""
        return self._combined(other, float.__add__)

    def beyond(self, other: DecayedCounter) -> DecayedCounter:
        """Return the excess over another counter of one half-life; 0 where that is larger."""
        return self._combined(other, lambda mine, theirs: max(0.0, mine - theirs))

    def row(self, account: Account, times: RunTimes) -> LedgerRow:
        """See `Counter`."""
        return LedgerRow(
            account, self.counter, self.epoch_wall_s, times.runs, times.run_s, self.advance
        )

    def _combined(
        self, other: DecayedCounter, combine: Callable[[float, float], float]
    ) -> DecayedCounter:
        if self.epoch == other.epoch:  # mostly: an epoch is a half-life
            counter = combine(self.counter, other.counter)
            advance = combine(self.advance, other.advance)
            return DecayedCounter(self.half_life_s, self.epoch, counter, advance)
        epoch = max(self.epoch, other.epoch)
        amounts = map(combine, self._in_epoch(epoch), other._in_epoch(epoch))
        return DecayedCounter(self.half_life_s, epoch, *amounts)

    def _half_lives_since(self, epoch: int, wall_s: float) -> float:
        # A clock set back must neither multiply what was charged nor make new charges worthless:
        # until it has caught up with the epoch, charges add up in full and nothing decays.
        return max(0.0, wall_s / self.half_life_s - epoch)

    def _in_epoch(self, epoch: int) -> tuple[float, float]:
        """The counter and its advance as of this epoch or a later one."""
        if epoch == self.epoch:
            return self.counter, self.advance
        later = (math.ldexp(each, self.epoch - epoch) for each in (self.counter, self.advance))
        counter, advance = (each if each >= NEGLIGIBLE_S else 0.0 for each in later)
        return counter, advance


class DecayedSum(Generic[Key]):
    """The usage in many counters with a half-life, read without a loop over them. A `UseSum`.

    Counters of one epoch decay alike, so their sum does. What is later than the epoch of the last
    reading counts in full, as `DecayedCounter.at` has it.
    """

    __slots__ = ("_counters", "_epoch", "_half_life_s", "_total")

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._epoch = 0
        self._counters: dict[Key, DecayedCounter] = {}
        self._total = 0.0
        """Of all, as of the epoch."""

    def merge(self, key: Key, row: LedgerRow) -> None:
        """See `UseSum`."""
        usage = DecayedCounter.restored(self._half_life_s, row)
        known = self._counters.get(key)
        if known is not None:
            self._total -= self._in_epoch(known)
            usage = known.merged(usage)
        self._counters[key] = usage
        self._total += self._in_epoch(usage)

    def drop(self, key: Key) -> None:
        """See `UseSum`."""
        known = self._counters.pop(key, None)
        if known is not None:
            self._total -= self._in_epoch(known)
        if not self._counters:
            self._total = 0.0  # what rounding left

    def at(self, wall_s: float) -> float:
        """See `UseSum`."""
        half_lives = wall_s / self._half_life_s
        epoch = math.floor(half_lives)
        if epoch > self._epoch:
            self._epoch = epoch
            self._total = 0.0
            for usage in self._counters.values():
                self._total += self._in_epoch(usage)
        return max(0.0, self._total) * math.exp2(-max(0.0, half_lives - self._epoch))

    def is_charged_since(self, wall_s: float) -> bool:
        """See `UseSum`."""
        epoch = math.floor(wall_s / self._half_life_s)
        return any(each.epoch >= epoch and each.counter > 0.0 for each in self._counters.values())

    def _in_epoch(self, usage: DecayedCounter) -> float:
        return math.ldexp(usage.counter, min(0, usage.epoch - self._epoch))


@dataclass(frozen=True)
class Decay:
    """The rule of one cluster: use loses half of its weight with each half-life."""

    half_life_s: float
    bucket_s: ClassVar[float] = 0.0
    """A rule that counts in buckets of time says how long they are."""

    @property
    def span_s(self) -> float:
        """Return the time in which use loses much of its weight."""
        return self.half_life_s

    @property
    def counting_s(self) -> float:
        """Return the usage that steady use converges to, in seconds of it."""
        return self.half_life_s / math.log(2.0)

    def epoch(self, wall_s: float) -> int:
        """Return the epoch of a time; counters of one epoch are comparable at any time in it."""
        return math.floor(wall_s / self.half_life_s)

    def as_of(self, charge_s: float, made_wall_s: float, wall_s: float) -> float:
        """Return as how much a charge of `made_wall_s` counts beside charges of `wall_s`."""
        half_lives = (made_wall_s - wall_s) / self.half_life_s
        return charge_s * math.exp2(min(HALF_LIVES_MAX, half_lives))

    def counter(self) -> Counter:
        """Return an empty counter."""
        return DecayedCounter(self.half_life_s)

    def restored(self, row: LedgerRow) -> Counter:
        """Return the counter of a stored or published row."""
        return DecayedCounter.restored(self.half_life_s, row)

    def sum(self, _keys: type[Key]) -> UseSum[Key]:
        """Return an empty sum of counters with keys of this type."""
        return DecayedSum[Key](self.half_life_s)

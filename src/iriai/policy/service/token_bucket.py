"""Token buckets: a burst, then a rate; one, or one for each of many.

Turner: New directions in communications (IEEE Communications Magazine 24, 1986), the "leaky bucket"
as a meter. Pure: every moment is one of the steady clock, passed in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

KEYS_MAX = 4096
"""Buckets that are kept; the least recently used is dropped, and full when it is used again."""


class Rate(NamedTuple):
    """The burst and rate of a bucket."""

    per_s: float
    """The inflow each second."""
    burst: float
    """The capacity; a new bucket is full."""


class TokenBucket:
    """One bucket."""

    __slots__ = ("_at_s", "_left", "_rate")

    def __init__(self, rate: Rate, now_s: float) -> None:
        self._rate = rate
        self._left = rate.burst
        self._at_s = now_s

    def consume(self, now_s: float, amount: float = 1.0) -> bool:
        """Take `amount` out if there is that much; return whether there was."""
        self._fill(now_s)
        if amount > self._left:
            return False
        self._left -= amount
        return True

    def spend(self, amount: float) -> None:
        """Take `amount` out even if there is less; the deficit is filled first.

        Call it right after `available`, which updates the content.
        """
        self._left -= amount

    def available(self, now_s: float) -> float:
        """Return the content at `now_s`."""
        self._fill(now_s)
        return self._left

    def wait_s(self, now_s: float, amount: float = 1.0) -> float:
        """Return the seconds until the bucket holds `amount`, if nothing is taken meanwhile."""
        self._fill(now_s)
        return max(0.0, (amount - self._left) / self._rate.per_s)

    def _fill(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._at_s)
        self._at_s = now_s
        self._left = min(self._rate.burst, self._left + passed_s * self._rate.per_s)


class TokenBuckets(Generic[K]):
    """One bucket for each key, all of one rate."""

    def __init__(self, rate: Rate, keys_max: int = KEYS_MAX) -> None:
        self.rate = rate
        self._keys_max = keys_max
        self._buckets: OrderedDict[K, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def consume(self, key: K, now_s: float, amount: float = 1.0) -> bool:
        """Take `amount` out of the bucket of `key` if it has that much; return whether it had."""
        return self.of(key, now_s).consume(now_s, amount)

    def wait_s(self, key: K, now_s: float, amount: float = 1.0) -> float:
        """Return the seconds until the bucket of `key` holds `amount`."""
        return self.of(key, now_s).wait_s(now_s, amount)

    def of(self, key: K, now_s: float) -> TokenBucket:
        """Return the bucket of `key`, a full one where there is none."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self.rate, now_s)
            if len(self._buckets) > self._keys_max:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket

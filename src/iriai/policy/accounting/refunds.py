"""Charges that are returned for what owners of machines destroyed (docs/spec/003, section 5).

Each machine counts what it returns to an account by days, beside the counter of charges. The
numbers of a day only grow, so of two copies the larger is the later, as with charges. An account
gets the sum of all machines, up to a bound for each day: whoever reads the counters applies it, so
every broker has the same result, whatever it heard first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from iriai.model.records import DAY_S, REFUND_DAYS, Refund, Refunds
from iriai.policy.accounting.decay import Decay


def with_refund(
    refunds: Refunds, charge_s: float, began_wall_s: float, wall_s: float, decay: Decay
) -> Refunds:
    """Return refunds with one more, made at `wall_s` for work that began at `began_wall_s`.

    It counts as a charge of when the work began, so that it never weighs more than what was charged
    since then. A clock that was set back adds to the latest day.
    """
    day = max(int(wall_s // DAY_S), refunds[-1].day if refunds else 0)
    end_s = (day + 1) * DAY_S
    counts_s = min(charge_s, decay.as_of(charge_s, min(began_wall_s, end_s), end_s))
    return plus(refunds, (Refund(day, charge_s, counts_s),))


def merged(one: Refunds, other: Refunds) -> Refunds:
    """Return the later of two copies, day by day."""
    return _combined(one, other, max)


def plus(one: Refunds, other: Refunds) -> Refunds:
    """Return the sum of what two machines return."""
    return _combined(one, other, float.__add__)


def beyond(one: Refunds, other: Refunds) -> Refunds:
    """Return what one has more than another; no day without any."""
    more = _combined(one, other, lambda mine, theirs: max(0.0, mine - theirs))
    return tuple(each for each in more if each.charge_s > 0.0)


def _combined(one: Refunds, other: Refunds, combine: Callable[[float, float], float]) -> Refunds:
    if not other and combine is not max:
        return one
    mine = {each.day: each for each in one}
    theirs = {each.day: each for each in other}
    days = sorted({**mine, **theirs})
    nothing = Refund(0, 0.0, 0.0)
    pairs = ((day, mine.get(day, nothing), theirs.get(day, nothing)) for day in days)
    return tuple(
        Refund(day, combine(a.charge_s, b.charge_s), combine(a.counts_s, b.counts_s))
        for day, a, b in pairs
        if day > days[-1] - REFUND_DAYS
    )


Key = TypeVar("Key", bound=Hashable)


class ReturnedCharges(Generic[Key]):
    """What all machines return to one account."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Refunds] = {}
        self.by_day: Refunds = ()
        """The sums of all machines, without a bound."""

    def merge(self, key: Key, refunds: Refunds) -> None:
        """Take a copy of a machine's refunds; the later of two stays."""
        self._by_key[key] = merged(self._by_key.get(key, ()), refunds)
        self._add_up(self._by_key.values())

    def drop(self, key: Key) -> None:
        """Forget those of a machine, if there are any."""
        if self._by_key.pop(key, None) is not None:
            self._add_up(self._by_key.values())

    def _add_up(self, every: Iterable[Refunds]) -> None:
        self.by_day = ()
        for refunds in every:
            self.by_day = plus(self.by_day, refunds)

    def at(self, wall_s: float, most_s: float, decay: Decay) -> float:
        """Return what is left of it at `wall_s`, with at most `most_s` of each day."""
        left_s = 0.0
        for day, charge_s, counts_s in self.by_day:
            if charge_s > 0.0:
                part = min(1.0, most_s / charge_s)
                end_s = (day + 1) * DAY_S
                left_s += part * min(charge_s, decay.as_of(counts_s, end_s, wall_s))
        return left_s

"""First come, first served, for comparison only."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender, Groups, Order
from iriai.policy.draw.sampling import certain_rates


class Fifo(Order):
    """The most urgent head task, then the one that waits longest, then the lowest id."""

    is_one_queue: ClassVar[bool] = True

    def rates(
        self,
        contenders: Sequence[Contender],
        groups: Groups,
    ) -> dict[Account, float]:
        """1 for the account that is next, 0 for the others."""
        return certain_rates(contenders, _first(contenders)) if contenders else {}

    def choose(
        self,
        contenders: Sequence[Contender],
        groups: Groups,
        rng: Random,
    ) -> Account:
        """The account whose head task came first; see `Order.choose`."""
        return _first(contenders)


def _first(contenders: Sequence[Contender]) -> Account:
    if not contenders:
        raise ValueError("no account to choose from")
    return min(contenders, key=lambda c: (-c.urgency, c.queued_at_s, c.head)).account

"""Orders that draw by weights, and orders that are certain who is next."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender, Groups, Order


class WeightedOrder(Order):
    """Draws each contender with a probability proportional to its weight."""

    @abstractmethod
    def weights(self, contenders: Sequence[Contender], groups: Groups) -> list[float]:
        """Return the weight of each contender, more than 0."""

    def rates(self, contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
        """Return each account's weight as a part of all weights."""
        weights = self.weights(contenders, groups)
        total = 0.0
        for weight in weights:
            total += weight
        return {
            contender.account: weight / total
            for contender, weight in zip(contenders, weights, strict=True)
        }

    def choose(self, contenders: Sequence[Contender], groups: Groups, rng: Random) -> Account:
        """Draw one account; one call of `rng.random()`. See `Order.choose`."""
        if not contenders:
            raise ValueError("no account to draw from")
        bounds = list(accumulate(self.weights(contenders, groups)))
        # The product may round up to the last bound itself, which is past the last contender.
        index = bisect_right(bounds, rng.random() * bounds[-1], 0, len(bounds) - 1)
        return contenders[index].account


class CertainOrder(Order):
    """Uses no random numbers: one account is next with certainty."""

    @abstractmethod
    def next_account(self, contenders: Sequence[Contender], groups: Groups) -> Account:
        """Return the account that is next; there is a contender."""

    def rates(self, contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
        """Return 1 for the account that is next, 0 for the others."""
        rates = dict.fromkeys((contender.account for contender in contenders), 0.0)
        return rates | {self.next_account(contenders, groups): 1.0} if rates else rates

    def choose(self, contenders: Sequence[Contender], groups: Groups, rng: Random) -> Account:
        """Return the account that is next; see `Order.choose`."""
        if not contenders:
            raise ValueError("no account to choose from")
        return self.next_account(contenders, groups)

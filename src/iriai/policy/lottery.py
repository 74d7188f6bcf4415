"""The default order: a lottery whose shares settle at the rights.

A group is drawn with weight `R^2 / U` (right and usage), then a user in it with weight `r^2 / u`.
What is drawn grows as `dU/dt ~ R^2 / U`, so usage settles proportional to the rights, where the
weights of paper 000 (section 5.2, see `paper000`) settle at their square roots. As the group is
drawn first, its number of members does not matter.

Urgency M multiplies a user's weight, and the group's by (sum of user weights with M) / (sum
without). The chance of a user of the group is (weight with M) / (sum with M), so the sum with M
cancels, and both levels are one flat draw with weights `R^2 / U * M r^2 / u / (sum without M)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from iriai.model.account import Account
from iriai.policy.draw import drawn, weighted_rates
from iriai.policy.order import Contender, Groups, GroupStanding, OrderSettings


@dataclass(frozen=True, slots=True)
class Lottery:
    """Weighted draw; in the long run the share got is the share wanted."""

    settings: OrderSettings

    def rates(self, contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
        """The probability of each account to be drawn next."""
        return weighted_rates(contenders, self._weights(contenders, groups))

    def choose(self, contenders: Sequence[Contender], groups: Groups, rng: Random) -> Account:
        """The account drawn; see `Order.choose`."""
        return drawn(contenders, self._weights(contenders, groups), rng)

    def _weights(self, contenders: Sequence[Contender], groups: Groups) -> list[float]:
        # The hot path of a broker: one pass that unpacks, and no call for each contender.
        floor = self.settings.usage_floor_s
        within: dict[str, float] = {}
        weighed: list[tuple[float, str]] = []
        for account, usage, right, urgency, _, _ in contenders:
            name = account[0] if groups else ""
            weight = right * right / (usage if usage > floor else floor)  # noqa: FURB136
            if name in within:
                within[name] += weight
            else:
                within[name] = weight
            weighed.append((weight * urgency, name))
        factors = {"": 1.0}
        if groups:
            factors = {name: self._group_weight(groups[name]) / within[name] for name in within}
        return [weight * factors[name] for weight, name in weighed]

    def _group_weight(self, group: GroupStanding) -> float:
        return group.right**2 / max(self.settings.usage_floor_s, group.usage_s)

"""The default order: a lottery whose shares settle at the rights, whatever jobs cost.

Without urgency a group is drawn with weight `R^2 / U`, its right and usage, divided by the expected
cost of a draw in it; then a user in it with weight `r^2 / u` divided by the expected cost of the
head task. So what is drawn grows as `dU/dt ~ R^2 / U`, in the group as `du/dt ~ r^2 / u`, and usage
settles proportional to the rights: neither the number of members of a group matters nor what their
jobs cost. The weights of paper 000 (section 5.2, see `paper000`) settle at the square root of the
right times the cost.

Urgency M multiplies a user's weight, and that of the group by the mean of M over its contenders by
right. A user who always asks for M settles at M times the usage, the same real use. The usage of
the group is then larger by that mean, so the factor gives back to all in it what it takes.

Both levels are one flat draw; docs/spec/003 derives it and has an example worked by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from iriai.model.account import Account
from iriai.policy.orders.lottery_draw import LotteryDraw
from iriai.policy.orders.order import Contender, Groups, GroupStanding, OrderSettings
from iriai.policy.orders.sampling import drawn, weighted_rates
from iriai.policy.orders.urgency import mean_urgencies


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

    def drawing(self, contenders: Sequence[Contender], groups: Groups) -> LotteryDraw:
        """For several draws in a row; see `policy.orders.incremental_draw`."""
        return LotteryDraw(contenders, groups, self.settings.usage_floor_s)

    def _weights(self, contenders: Sequence[Contender], groups: Groups) -> list[float]:
        # The hot path of a broker: loops that unpack, and no call for each contender.
        floor = self.settings.usage_floor_s
        if not groups:
            return [
                right * right * urgency / (expected * (usage if usage > floor else floor))  # noqa: FURB136
                for _, usage, right, urgency, _, _, expected in contenders
            ]
        within: dict[str, float] = {}
        weighed: list[tuple[float, str]] = []
        is_urgent = False
        for account, usage, right, urgency, _, _, expected in contenders:
            name = account[0]
            growth = right * right * urgency / (usage if usage > floor else floor)  # noqa: FURB136
            if name in within:
                within[name] += growth
            else:
                within[name] = growth
            weighed.append((growth / expected, name))
            if urgency != 1.0:
                is_urgent = True
        factors = {name: self._group_weight(groups[name]) / within[name] for name in within}
        if is_urgent:
            for name, mean in mean_urgencies(contenders).items():
                factors[name] *= mean
        return [weight * factors[name] for weight, name in weighed]

    def _group_weight(self, group: GroupStanding) -> float:
        return group.right**2 / max(self.settings.usage_floor_s, group.usage_s)

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

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender, Groups, GroupUsage, IncrementalDraw
from iriai.policy.draw.sampling import WeightedOrder
from iriai.policy.draw.urgency import mean_urgencies


class Weighed(NamedTuple):
    """A contender as the lottery weighs it; it is the same until the contender changes."""

    account: Account
    group: str
    growth: float
    """By how much its usage would grow (`r^2 M / u`)."""
    weight: float
    """That, for what its head is expected to cost."""
    right: float
    haste: float
    """Its right times what its urgency exceeds 1 by."""

    @staticmethod
    def of(contender: Contender, floor_s: float) -> Weighed:
        """Weigh a contender; usage below `floor_s` counts as that."""
        account, usage_s, right, urgency, _, _, expected_s = contender
        growth = right * right * urgency / (usage_s if usage_s > floor_s else floor_s)  # noqa: FURB136
        haste = right * (urgency - 1.0)
        return Weighed(account, account[0], growth, growth / expected_s, right, haste)


class _Level:
    """The contenders of one group in columns, and their sums."""

    __slots__ = (
        "accounts",
        "growth",
        "growths",
        "haste",
        "hastes",
        "right",
        "rights",
        "weight",
        "weights",
    )

    def __init__(self, members: list[Weighed]) -> None:
        accounts, _, growths, weights, rights, hastes = zip(*members, strict=True)
        self.accounts: list[Account] = list(accounts)
        self.growths: list[float] = list(growths)
        self.weights: list[float] = list(weights)
        self.rights: list[float] = list(rights)
        self.hastes: list[float] = list(hastes)
        self._add_up()

    def put(self, place: int, weighed: Weighed) -> None:
        """Replace the contender at a place, which changed."""
        _, _, self.growths[place], self.weights[place], right, haste = weighed
        self.rights[place], self.hastes[place] = right, haste
        self._add_up()

    def drop(self, place: int) -> None:
        """Remove the contender at a place."""
        for column in (self.accounts, self.growths, self.weights, self.rights, self.hastes):
            del column[place]
        self._add_up()

    def _add_up(self) -> None:
        """Anew: differences of sums would leave nothing of members that weigh little."""
        self.growth, self.weight = sum(self.growths), sum(self.weights)
        self.right, self.haste = sum(self.rights), sum(self.hastes)


class LotteryDraw(IncrementalDraw):
    """The lottery drawn in its two levels: the group, then the user in it (docs/spec/003, 2).

    The probabilities are those of `Lottery`, which computes both levels as one flat draw. Sums are
    kept for each group, so a change costs as many steps as the group has members, and a draw hardly
    more.
    """

    def __init__(self, weighed: Sequence[Weighed], groups: Groups, floor_s: float) -> None:
        """`floor_s` is the least usage that counts."""
        self._floor_s = floor_s
        self._groups = dict(groups)
        members: defaultdict[str, list[Weighed]] = defaultdict(list)
        if groups:
            for each in weighed:
                members[each[1]].append(each)
        elif weighed:
            members[""] = list(weighed)
        self._levels = {name: _Level(each) for name, each in members.items()}
        self._weights = {name: self._weight_of(name) for name in self._levels}
        self._count = len(weighed)

    def __len__(self) -> int:
        return self._count

    def draw(self, rng: Random) -> Account:
        """The group by its weight, then one of its accounts by theirs; one `rng.random()`."""
        weights = self._weights
        point = rng.random() * sum(weights.values())
        name = ""
        for name, weight in weights.items():  # noqa: B007 - the last, where sums were rounded
            if point < weight:
                break
            point -= weight
        level = self._levels[name]
        point *= level.weight / weights[name]
        place = 0
        for place, weight in enumerate(level.weights):  # noqa: B007 - as above
            point -= weight
            if point < 0:
                break
        return level.accounts[place]

    def replace(self, contender: Contender) -> None:
        """See `IncrementalDraw.replace`."""
        name = contender[0][0] if self._groups else ""
        level = self._levels.get(name)
        if level is not None and contender[0] in level.accounts:
            place = level.accounts.index(contender[0])
            level.put(place, Weighed.of(contender, self._floor_s))
            self._weights[name] = self._weight_of(name)

    def leave(self, account: Account) -> None:
        """See `IncrementalDraw.leave`."""
        name = account.group if self._groups else ""
        level = self._levels.get(name)
        if level is not None and account in level.accounts:
            self._count -= 1
            if len(level.accounts) == 1:
                del self._levels[name], self._weights[name]
            else:
                level.drop(level.accounts.index(account))
                self._weights[name] = self._weight_of(name)

    def regroup(self, group: GroupUsage) -> None:
        """See `IncrementalDraw.regroup`."""
        super().regroup(group)
        if self._groups and group.group in self._levels:
            self._weights[group.group] = self._weight_of(group.group)

    def group_weights(self) -> dict[str, float]:
        """Return those of groups with a contender; without groups of all contenders together."""
        return dict(self._weights)

    def _weight_of(self, name: str) -> float:
        level = self._levels[name]
        if not self._groups:
            return level.weight
        _, right, usage_s = self._groups[name]
        urgency = 1.0 + level.haste / level.right
        floor_s = self._floor_s
        used_s = usage_s if usage_s > floor_s else floor_s  # noqa: FURB136
        return right * right / used_s * urgency * level.weight / level.growth


class Lottery(WeightedOrder):
    """Weighted draw; in the long run the share got is the share wanted."""

    def drawing(self, contenders: Sequence[Contender], groups: Groups) -> LotteryDraw:
        """For several draws in a row; see `policy.orders.lottery`."""
        return self.drawing_weighed([self.weighed(each) for each in contenders], groups)

    def weighed(self, contender: Contender) -> Weighed:
        """See `Order.weighed`."""
        return Weighed.of(contender, self.settings.usage_floor_s)

    def drawing_weighed(self, weighed: Sequence[Weighed], groups: Groups) -> LotteryDraw:
        """See `Order.drawing_weighed`."""
        return LotteryDraw(weighed, groups, self.settings.usage_floor_s)

    def weights(self, contenders: Sequence[Contender], groups: Groups) -> list[float]:
        """Return the weight of each contender, of both levels in one."""
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
        factors = {
            name: groups[name].right ** 2 / max(floor, groups[name].usage_s) / growth
            for name, growth in within.items()
        }
        if is_urgent:
            for name, mean in mean_urgencies(contenders).items():
                factors[name] *= mean
        return [weight * factors[name] for weight, name in weighed]

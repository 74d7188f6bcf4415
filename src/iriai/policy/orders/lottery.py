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
from random import Random

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender, Groups, IncrementalDraw
from iriai.policy.draw.sampling import WeightedOrder
from iriai.policy.draw.urgency import mean_urgencies


class _Level:
    """The contenders of one group, and their sums.

    Columns rather than rows: most are weighed once, for one draw, which is the hot path of a
    broker.
    """

    __slots__ = ("accounts", "growth", "growths", "haste", "right", "weight", "weights", "wishes")

    def __init__(self, contenders: list[Contender], floor_s: float) -> None:
        self.accounts = [contender[0] for contender in contenders]
        self.growths = [
            right * right * urgency / (usage_s if usage_s > floor_s else floor_s)  # noqa: FURB136
            for _, usage_s, right, urgency, _, _, _ in contenders
        ]
        """By how much the usage of each would grow (`r^2 M / u`)."""
        expected = [contender[6] for contender in contenders]
        self.weights = [a / b for a, b in zip(self.growths, expected, strict=True)]
        """That, for what its head is expected to cost."""
        self.wishes = [(contender[2], contender[3]) for contender in contenders]
        """The right of each, and its urgency."""
        self._add_up()

    def put(self, contender: Contender, floor_s: float) -> None:
        """One of them changed."""
        account, usage_s, right, urgency, _, _, expected_s = contender
        place = self.accounts.index(account)
        growth = self.growths[place] = right * right * urgency / max(usage_s, floor_s)
        self.weights[place] = growth / expected_s
        self.wishes[place] = (right, urgency)
        self._add_up()

    def drop(self, account: Account) -> None:
        """One of them contends no more."""
        place = self.accounts.index(account)
        del self.accounts[place], self.growths[place], self.weights[place], self.wishes[place]
        self._add_up()

    def _add_up(self) -> None:
        """Anew: differences of sums would leave nothing of members that weigh little."""
        self.growth, self.weight = sum(self.growths), sum(self.weights)
        self.right = self.haste = 0.0
        for right, urgency in self.wishes:
            self.right += right
            self.haste += right * (urgency - 1.0)


class LotteryDraw(IncrementalDraw):
    """The lottery drawn in its two levels: the group, then the user in it (docs/spec/003, 2).

    The probabilities are those of `Lottery`, which computes both levels as one flat draw. Sums are
    kept for each group, so a change costs as many steps as the group has members, and a draw hardly
    more.
    """

    def __init__(self, contenders: Sequence[Contender], groups: Groups, floor_s: float) -> None:
        """`floor_s` is the least usage that counts."""
        self._floor_s = floor_s
        self._groups = dict(groups)
        members: dict[str, list[Contender]] = {}
        if groups:
            for contender in contenders:
                name = contender[0][0]
                if name in members:
                    members[name].append(contender)
                else:
                    members[name] = [contender]
        elif contenders:
            members[""] = list(contenders)
        self._levels = {name: _Level(each, floor_s) for name, each in members.items()}
        self._count = len(contenders)

    def __len__(self) -> int:
        return self._count

    def draw(self, rng: Random) -> Account:
        """The group by its weight, then one of its accounts by theirs; one `rng.random()`."""
        weights = self.group_weights()
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
        level = self._level_of(contender.account)
        if level is not None and contender.account in level.accounts:
            level.put(contender, self._floor_s)

    def leave(self, account: Account) -> None:
        """See `IncrementalDraw.leave`."""
        level = self._level_of(account)
        if level is not None and account in level.accounts:
            level.drop(account)
            self._count -= 1
            if not level.accounts:
                del self._levels[account.group if self._groups else ""]

    def group_weights(self) -> dict[str, float]:
        """Of each group with a contender; without groups of all contenders together."""
        if not self._groups:
            return {name: level.weight for name, level in self._levels.items()}
        weights = {}
        for name, level in self._levels.items():
            group = self._groups[name]
            right, usage_s = group.right, max(self._floor_s, group.usage_s)
            urgency = 1.0 + level.haste / level.right
            weights[name] = right * right / usage_s * urgency * level.weight / level.growth
        return weights

    def _level_of(self, account: Account) -> _Level | None:
        return self._levels.get(account.group if self._groups else "")


class Lottery(WeightedOrder):
    """Weighted draw; in the long run the share got is the share wanted."""

    def drawing(self, contenders: Sequence[Contender], groups: Groups) -> LotteryDraw:
        """For several draws in a row; see `policy.orders.lottery`."""
        return LotteryDraw(contenders, groups, self.settings.usage_floor_s)

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

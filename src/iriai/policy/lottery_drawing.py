"""The lottery drawn in its two levels: the group, then the user in it (docs/spec/003, section 2).

The probabilities are those of `Lottery`, which computes both levels as one flat draw. Sums are
kept for each group, so a change costs as many steps as the group has members, and a draw hardly
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from iriai.model.account import Account
from iriai.policy.order import Contender, Groups, GroupStanding

_Member = tuple[float, float, float, float]
"""Of an account: by how much its usage would grow (`r^2 M / u`); that, for what its head is
expected to cost; its right; what it adds to the group's urgency (`r (M - 1)`)."""


class _Level:
    """The contenders of one group, and their sums."""

    __slots__ = ("growth", "haste", "members", "right", "weight")

    def __init__(self) -> None:
        self.members: dict[Account, _Member] = {}
        self.growth = self.weight = self.right = self.haste = 0.0

    def put(self, account: Account, member: _Member) -> None:
        self.members[account] = member
        self._add_up()

    def drop(self, account: Account) -> None:
        del self.members[account]
        if self.members:
            self._add_up()

    def _add_up(self) -> None:
        """Anew: differences of sums would leave nothing of members that weigh little."""
        growths, weights, rights, hastes = zip(*self.members.values(), strict=True)
        self.growth, self.weight = sum(growths), sum(weights)
        self.right, self.haste = sum(rights), sum(hastes)


class LotteryDrawing:
    """See the module, and `policy.drawing.Drawing`."""

    def __init__(self, contenders: Sequence[Contender], groups: Groups, floor_s: float) -> None:
        self._floor_s = floor_s
        self._groups = dict(groups)
        self._levels: dict[str, _Level] = {}
        # The hot path of a broker: loops that unpack, and no call for each contender.
        levels, has_groups = self._levels, bool(groups)
        for account, usage_s, right, urgency, _, _, expected_s in contenders:
            name = account[0] if has_groups else ""
            level = levels.get(name)
            if level is None:
                level = levels[name] = _Level()
            growth = right * right * urgency / (usage_s if usage_s > floor_s else floor_s)  # noqa: FURB136
            weight, haste = growth / expected_s, right * (urgency - 1.0)
            level.members[account] = (growth, weight, right, haste)
            level.growth += growth
            level.weight += weight
            level.right += right
            level.haste += haste
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
        account = Account("", "")
        for account, member in level.members.items():  # noqa: B007 - as above
            point -= member[1]
            if point < 0:
                break
        return account

    def replace(self, contender: Contender) -> None:
        """See `Drawing.replace`."""
        level = self._level_of(contender.account)
        if level is not None and contender.account in level.members:
            level.put(contender.account, self._member(contender))

    def leave(self, account: Account) -> None:
        """See `Drawing.leave`."""
        level = self._level_of(account)
        if level is not None and account in level.members:
            level.drop(account)
            self._count -= 1
            if not level.members:
                del self._levels[account.group if self._groups else ""]

    def regroup(self, group: GroupStanding) -> None:
        """See `Drawing.regroup`."""
        if group.group in self._groups:
            self._groups[group.group] = group

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

    def _member(self, contender: Contender) -> _Member:
        _, usage_s, right, urgency, _, _, expected_s = contender
        floor_s = self._floor_s
        growth = right * right * urgency / (usage_s if usage_s > floor_s else floor_s)  # noqa: FURB136
        return growth, growth / expected_s, right, right * (urgency - 1.0)

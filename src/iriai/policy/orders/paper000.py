"""The order of paper 000 (Sumida, Kakizaki), literally, for experiments and comparison.

Section 5.2.1: `share = (usage / right) / sum`, `priority = 1 / share`. Section 5.2.2, with groups:
the same over the groups with a queued job (usage of all their members), then over the users within
each group by CPU time alone, without rights; a user's priority is the product of both. Section 5.5:
`-p M` multiplies the priority. Section 5.3: the selection rate is the priority over the sum of
priorities.

Usage settles at the square root of the rights, and a group gains by having more members. The
paper leaves usage 0 undefined (1 / 0); here the usage floor stands in, the only thing added.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from types import MappingProxyType

from iriai.policy.draw.order import Contender, Groups, chance_by_urgency
from iriai.policy.draw.sampling import WeightedOrder


class Paper000(WeightedOrder):
    """Weighted draw by the paper's priorities."""

    head_chance = staticmethod(chance_by_urgency)
    usual = MappingProxyType({"idle_weight": 0.0, "gpu_weight": 0.0, "offpeak": "paper000"})

    def weights(self, contenders: Sequence[Contender], groups: Groups) -> list[float]:
        """Return the paper's priority of each contender: at least 1, times its urgency."""
        if groups:
            return self._grouped(contenders, groups)
        floor = self.settings.usage_floor_s
        claims = [max(floor, usage) / right for _, usage, right, _, _, _, _ in contenders]
        total = fsum(claims)
        return [total / used * c[3] for used, c in zip(claims, contenders, strict=True)]

    def _grouped(self, contenders: Sequence[Contender], groups: Groups) -> list[float]:
        floor = self.settings.usage_floor_s
        within: dict[str, float] = {}
        weighed: list[tuple[float, str]] = []
        for account, usage, _, urgency, _, _, _ in contenders:
            name = account[0]
            used = usage if usage > floor else floor  # noqa: FURB136 - a call would cost a fifth
            if name in within:
                within[name] += used
            else:
                within[name] = used
            weighed.append((urgency / used, name))
        claims = {name: max(floor, groups[name].usage_s) / groups[name].right for name in within}
        total = fsum(claims.values())
        # The group's priority times the sum within the group: what is left is 1 / own use.
        factors = {name: total / claims[name] * within[name] for name in within}
        return [weight * factors[name] for weight, name in weighed]

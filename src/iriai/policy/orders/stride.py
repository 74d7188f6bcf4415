"""Stride scheduling: the group, then the user, furthest below its right.

Always taking the lowest usage per right equalises usage per right, which is the share wanted; the
error is one charge, where a lottery's is a random walk (stride scheduling, Waldspurger and Weihl,
MIT/LCS/TM-528, 1995; the pass of a client is here its usage per right, so it needs no state). The
price: an account far ahead of the others waits until they have caught up.

Urgency M divides the user's usage per right by M, and the group's by the mean of M over its
contenders weighted by right, which is what their charges grow by (`urgency`).
"""

from __future__ import annotations

from collections.abc import Sequence

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender, Groups, chance_by_urgency
from iriai.policy.draw.sampling import CertainOrder
from iriai.policy.draw.urgency import mean_urgencies


class Stride(CertainOrder):
    """Deterministic; ties go by name. The usage floor plays no part: nothing divides by usage."""

    head_chance = staticmethod(chance_by_urgency)

    def next_account(self, contenders: Sequence[Contender], groups: Groups) -> Account:
        """Return the account furthest below its right."""
        if groups:
            group = _next_group(contenders, groups)
            contenders = [c for c in contenders if c[0][0] == group]
        claims = (
            (usage_s / (right * urgency), account)
            for account, usage_s, right, urgency, _, _, _ in contenders
        )
        return min(claims)[1]


def _next_group(contenders: Sequence[Contender], groups: Groups) -> str:
    urgencies = mean_urgencies(contenders)
    names = {c[0][0]: None for c in contenders}
    return min(
        (groups[name].usage_s / groups[name].right / urgencies.get(name, 1.0), name)
        for name in names
    )[1]

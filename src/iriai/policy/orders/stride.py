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
from random import Random

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender, Groups, Order, chance_by_urgency
from iriai.policy.draw.sampling import certain_rates
from iriai.policy.draw.urgency import mean_urgencies


class Stride(Order):
    """Deterministic; ties go by name. The usage floor plays no part: nothing divides by usage."""

    head_chance = staticmethod(chance_by_urgency)

    def rates(self, contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
        """1 for the account that is next, 0 for the others."""
        return certain_rates(contenders, _next(contenders, groups)) if contenders else {}

    def choose(
        self,
        contenders: Sequence[Contender],
        groups: Groups,
        rng: Random,
    ) -> Account:
        """The account furthest below its right; see `Order.choose`."""
        return _next(contenders, groups)


def _next(contenders: Sequence[Contender], groups: Groups) -> Account:
    if not contenders:
        raise ValueError("no account to choose from")
    if groups:
        group = _next_group(contenders, groups)
        contenders = [c for c in contenders if c[0][0] == group]
    return min((usage / (right * urgency), a) for a, usage, right, urgency, _, _, _ in contenders)[
        1
    ]


def _next_group(contenders: Sequence[Contender], groups: Groups) -> str:
    urgencies = mean_urgencies(contenders)
    names = {c[0][0]: None for c in contenders}
    return min(
        (groups[name].usage_s / groups[name].right / urgencies.get(name, 1.0), name)
        for name in names
    )[1]

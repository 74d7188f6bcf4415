"""Urgency of a group: the factor of its weight, so that its members do not pay for one.

A user who always asks for urgency M is charged M times the use. Where all in a group have used
their part by rights, the group is so charged more than it used by the mean of M over its members,
weighted by their rights (docs/spec/003, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence

from iriai.policy.draw.order import Contender


def mean_urgencies(contenders: Sequence[Contender]) -> dict[str, float]:
    """The mean urgency of the contenders' head tasks, weighted by their rights.

    By group, and only of groups with an urgent task; that of the others is 1.
    """
    more: dict[str, float] = {}
    for account, _, right, urgency, _, _, _ in contenders:
        if urgency != 1.0:
            name = account[0]
            more[name] = more.get(name, 0.0) + right * (urgency - 1.0)
    rights = dict.fromkeys(more, 0.0)
    if more:
        for account, _, right, _, _, _, _ in contenders:
            name = account[0]
            if name in rights:
                rights[name] += right
    return {name: 1.0 + more[name] / rights[name] for name in more}

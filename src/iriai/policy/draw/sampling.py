"""From weights to a drawn contender, and to probabilities."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender


def drawn(contenders: Sequence[Contender], weights: list[float], rng: Random) -> Account:
    """One account, with probability proportional to its weight; one call of `rng.random()`.

    Raises:
        ValueError: there are no contenders.
    """
    if not contenders:
        raise ValueError("no account to draw from")
    bounds = list(accumulate(weights))
    # The product may round up to the last bound itself, which is past the last contender.
    index = bisect_right(bounds, rng.random() * bounds[-1], 0, len(bounds) - 1)
    return contenders[index].account


def weighted_rates(contenders: Sequence[Contender], weights: list[float]) -> dict[Account, float]:
    """Each account's weight as a part of all weights."""
    total = 0.0
    for weight in weights:
        total += weight
    return {
        contender.account: weight / total
        for contender, weight in zip(contenders, weights, strict=True)
    }


def certain_rates(contenders: Sequence[Contender], chosen: Account) -> dict[Account, float]:
    """The rates of an order without dice: 1 for `chosen`, 0 for everybody else."""
    return {
        contender.account: 1.0 if contender.account == chosen else 0.0 for contender in contenders
    }

"""The chi-square test of draws against expected rates, in closed form for whole degrees of freedom.

Abramowitz and Stegun, Handbook of Mathematical Functions, 26.4.4 (odd) and 26.4.5 (even).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

Name = TypeVar("Name")


def tail_probability(statistic: float, degrees: int) -> float:
    """The probability that chi-square with `degrees` of freedom exceeds `statistic`."""
    half = statistic / 2
    if degrees % 2 == 0:
        terms = (half**i / math.factorial(i) for i in range(degrees // 2))
        return math.exp(-half) * math.fsum(terms)
    terms = (half ** (i - 0.5) / math.gamma(i + 0.5) for i in range(1, (degrees - 1) // 2 + 1))
    return math.erfc(math.sqrt(half)) + math.exp(-half) * math.fsum(terms)


def p_value(drawn: Mapping[Name, int], rates: Mapping[Name, float]) -> float:
    """How likely draws at `rates` are at least as far from them as `drawn`."""
    draws = sum(drawn.values())
    statistic = math.fsum(
        (drawn.get(name, 0) - rate * draws) ** 2 / (rate * draws) for name, rate in rates.items()
    )
    return tail_probability(statistic, len(rates) - 1)

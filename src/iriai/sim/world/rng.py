"""Random choices from one seed: each source of chance has a generator of its own, by name.

Adding a source, or a throw in one of them, shifts no other. Only `random()` of the generators is
used, which gives the same numbers in every version of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, exp, log, pi, sqrt
from random import Random
from typing import TypeVar

T = TypeVar("T")


def generator(seed: int, name: str) -> Random:
    """Return the generator called `name` of a simulation with this seed."""
    return Random(f"{seed}/{name}")


class Rng:
    """Random choices from one generator."""

    def __init__(self, seed: int, name: str) -> None:
        self.random = generator(seed, name).random
        """The next number in [0, 1)."""

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def between(self, low: float, high: float) -> float:
        """Return a uniform number in [low, high)."""
        return low + (high - low) * self.random()

    def below(self, count: int) -> int:
        """Return a whole number from 0 to `count` - 1."""
        return int(self.random() * count)

    def pick(self, among: Sequence[T]) -> T:
        """Return a random element."""
        return among[int(self.random() * len(among))]

    def exponential(self, mean: float) -> float:
        """Return an exponentially distributed number."""
        return -mean * log(1.0 - self.random())

    def lognormal(self, median: float, sigma: float) -> float:
        """Return a lognormally distributed number."""
        radius = sqrt(-2.0 * log(1.0 - self.random()))
        return median * exp(sigma * radius * cos(2.0 * pi * self.random()))

"""Choosing at random, with a generator that was handed in."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def some(among: Sequence[T], count: int, rng: Random) -> list[T]:
    """So many different ones, or all; in random order."""
    rest = list(among)
    chosen = []
    for _ in range(min(count, len(rest))):
        at = int(rng.random() * len(rest))
        rest[at], rest[-1] = rest[-1], rest[at]
        chosen.append(rest.pop())
    return chosen


class Round:
    """Each in turn, in an order that is shuffled anew for each round (SWIM, section 4.3)."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._rest: list[str] = []
        self._all: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, name: str) -> None:
        """From now on `name` too, at a random place of the round that is under way."""
        if name not in self._all:
            self._all[name] = None
            self._rest.insert(int(self._rng.random() * (len(self._rest) + 1)), name)

    def discard(self, name: str) -> None:
        """No more."""
        self._all.pop(name, None)

    def next(self) -> str | None:
        """Whose turn it is; None where there is nobody."""
        for _ in range(2):
            while self._rest:
                name = self._rest.pop()
                if name in self._all:
                    return name
            self._rest = some(tuple(self._all), len(self._all), self._rng)
        return None

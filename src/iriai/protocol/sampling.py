"""Random choices with a given generator."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def some(among: Sequence[T], count: int, rng: Random) -> list[T]:
    """Return `count` different items, or all if there are fewer, in random order."""
    rest = list(among)
    chosen = []
    for _ in range(min(count, len(rest))):
        at = int(rng.random() * len(rest))
        rest[at], rest[-1] = rest[-1], rest[at]
        chosen.append(rest.pop())
    return chosen


CIRCLE = 8
"""So many others one machine speaks to by turns. Of hundreds, one in 3,000 (e^-8) is for a while in
nobody's circle; each keeps some sixteen links, eight of them its own."""
STAYS = 120
"""Turns after which one of a circle makes room. Shorter: links are made and given up more often,
for a handshake each; longer: who is in nobody's circle stays so. All together choose each once in
two minutes."""


class Round:
    """Each in turn, in an order that is shuffled anew for each round (SWIM, section 4.3).

    Of many, those of a circle that changes slowly: in a cluster of hundreds every turn would need
    a link with someone who was not spoken to for minutes.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._rest: list[str] = []
        self._all: dict[str, None] = {}
        self._circle: dict[str, None] = {}
        """The names that are probed in turn, the oldest first; all names if there are few."""
        self._turns = 0

    def __len__(self) -> int:
        return len(self._all)

    def add(self, name: str) -> None:
        """Add `name`; if it enters the circle, at a random place of the current round."""
        if name in self._all:
            return
        self._all[name] = None
        if len(self._circle) < CIRCLE:
            self._admit(name)
        elif self._rng.random() * len(self._all) < CIRCLE:  # so each is as likely to be in it
            for other in some(tuple(self._circle), 1, self._rng):
                del self._circle[other]
            self._admit(name)

    def discard(self, name: str) -> None:
        """Remove `name`; another one takes its place in the circle."""
        self._all.pop(name, None)
        if name in self._circle:
            del self._circle[name]
            self._fill()

    def next(self) -> str | None:
        """Return the next name of the round; None if there is none."""
        self._turns += 1
        if self._turns % STAYS == 0 and len(self._all) > len(self._circle):
            self._fill()
            del self._circle[next(iter(self._circle))]
        for _ in range(2):
            while self._rest:
                name = self._rest.pop()
                if name in self._circle:
                    return name
            self._rest = some(tuple(self._circle), len(self._circle), self._rng)
        return None

    def _fill(self) -> None:
        """Move one random name into the circle, if one is outside."""
        others = [name for name in self._all if name not in self._circle]
        for name in some(others, 1, self._rng):
            self._admit(name)

    def _admit(self, name: str) -> None:
        self._circle[name] = None
        self._rest.insert(int(self._rng.random() * (len(self._rest) + 1)), name)

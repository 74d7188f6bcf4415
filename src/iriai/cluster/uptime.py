"""Uptime of this machine: the share of the time that it is online, as it is measured and told."""

from __future__ import annotations

from iriai.model.availability import Steadiness

SLEPT_S = 180.0
"""A look that comes so late after the last shows that the machine slept: it was away."""
STORE_S = 900.0
"""Between two writes. What a crash loses is at most that much, counted as away."""
TOLD_ANEW = 0.02
"""By how much it changes before others are told: a rank that moved with each hour would move the
broker with it."""


class Uptime:
    """The measured uptime of this machine. Times are of the wall clock."""

    def __init__(self, known: Steadiness, wall_s: float) -> None:
        """`known` is what earlier processes measured."""
        self.known = known.seen(wall_s, there=False)
        self.told = self.known.value
        """The published uptime, from 0 to 1."""
        self._stored_wall_s = wall_s

    def look(self, wall_s: float) -> bool:
        """Count the time since the last look; return whether others are to be told."""
        self.known = self.known.seen(wall_s, there=wall_s - self.known.wall_s < SLEPT_S)
        if abs(self.known.value - self.told) < TOLD_ANEW:
            return False
        self.told = self.known.value
        return True

    def is_due(self) -> bool:
        """Return whether `known` is to be stored now: every `STORE_S`."""
        if self.known.wall_s - self._stored_wall_s < STORE_S:
            return False
        self._stored_wall_s = self.known.wall_s
        return True

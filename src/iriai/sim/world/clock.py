"""Clocks of a simulated machine: with an offset and a drift from the world's.

World time is what the simulation counts; no core ever sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nextafter

from iriai.model.instant import Instant

WALL_S = 1_800_000_000.0
"""The wall clock of a machine without any error, at second 0 of the world."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The steady and the wall clock of a machine, linear in world time."""

    steady_offset_s: float = 0.0
    """What the steady clock (since boot) shows at second 0 of the world."""
    wall_offset_s: float = 0.0
    """How far the wall clock is ahead of the world's."""
    drift: float = 0.0
    """How much faster than the world both clocks run; 0.001 is a second in a quarter of an hour."""
    wall_s: float = WALL_S

    def at(self, world_s: float, cause: str = "") -> Instant:
        """Return both clocks at a time of the world."""
        ran_s = world_s * (1.0 + self.drift)
        return Instant(
            self.steady_offset_s + ran_s, self.wall_s + self.wall_offset_s + ran_s, cause
        )

    def steady_s(self, world_s: float) -> float:
        """Return the steady clock at a time of the world."""
        return self.steady_offset_s + world_s * (1.0 + self.drift)

    def world_s(self, steady_s: float) -> float:
        """Return the first time of the world at which the steady clock has reached `steady_s`."""
        rate = 1.0 + self.drift
        world_s = (steady_s - self.steady_offset_s) / rate
        while self.steady_offset_s + world_s * rate < steady_s:
            world_s = nextafter(world_s, inf)
        return world_s

"""Clocks of a simulated machine: with an offset and a drift from the world's.

World time is what the simulation counts; no core ever sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    steps: tuple[tuple[float, float], ...] = ()
    """When, by the world, its wall clock was set, and by how much, in order."""

    def at(self, world_s: float, cause: str = "") -> Instant:
        """Return both clocks at a time of the world."""
        ran_s = world_s * (1.0 + self.drift)
        wall_s = self.wall_s + self.wall_offset_s + ran_s
        if self.steps:
            wall_s += sum(by_s for at_s, by_s in self.steps if at_s <= world_s)
        return Instant(self.steady_offset_s + ran_s, wall_s, cause)

    def stepped(self, world_s: float, by_s: float) -> Clock:
        """Return the clock after its wall clock was set; before, it showed what it showed."""
        return replace(self, steps=(*self.steps, (world_s, by_s)))

    @property
    def stepped_s(self) -> float:
        """How much its wall clock was set in all, forward and back."""
        return sum(abs(by_s) for _, by_s in self.steps)

    def was_stepped(self, world_s: float, within_s: float) -> bool:
        """Return whether its wall clock was set in the last seconds before a time of the world."""
        return any(world_s - within_s <= at_s <= world_s for at_s, _ in self.steps)

    def set_right(self, world_s: float) -> Clock:
        """Return the clock after it was set to what it would show if nobody had set it."""
        wrong_s = sum(by_s for _, by_s in self.steps)
        return self.stepped(world_s, -wrong_s) if wrong_s else self

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

"""A sensor of a condition, which is looked for once a second while tasks run."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from math import inf
from typing import Protocol

from iriai.launcher.owner.polled.reading import CannotLook
from iriai.model.owner import SensorState, SignKind

BUSY_S, IDLE_S = 1.0, 10.0
"""Between two looks while tasks run, and while none does."""
WORK_S, REST_S = 0.005, 0.01
"""How long a look may take at once, and the pause until it goes on: keys are not to wait for it."""
RELIEF = 0.8
"""A number that was too high has to fall below this part of its bound."""


class LookPace:
    """How often the sensors of conditions look; one for all."""

    is_busy = False
    """Whether tasks run."""
    repeat_s = IDLE_S
    """How often a condition that lasts is told."""

    def pause_s(self, *, holds: bool) -> float:
        """Return the time between two looks."""
        pause_s = BUSY_S if self.is_busy else IDLE_S
        return min(pause_s, self.repeat_s) if holds else pause_s


class ConditionProbe(Protocol):
    """Finds out whether one condition holds."""

    kind: SignKind
    holds: bool
    note: str
    """What it sees; for people."""

    def look(self, now_s: float) -> Iterator[None]:
        """Look anew; yields after each small piece of work. Raises `CannotLook` and OSError."""
        ...

    def close(self) -> None:
        """Leave what it has."""
        ...


class PolledSensor:
    """Has a probe look, and gives a sign when its condition begins, and while it lasts."""

    def __init__(self, probe: ConditionProbe, pace: LookPace) -> None:
        self.kind = probe.kind
        self._probe, self._pace = probe, pace
        self._looked_s = self._told_s = -inf
        """When the last look began, and the last sign was given."""
        self._look: Iterator[None] | None = None
        """One that goes on."""
        self._go_on_s = 0.0
        self._problem = "it has not looked yet"

    def descriptors(self, now_s: float) -> list[int]:
        """It waits for nothing but time."""
        return []

    def due_s(self) -> float:
        """Return when the next look is due, or that which was begun goes on."""
        if self._look is not None:
            return self._go_on_s
        return self._looked_s + self._pace.pause_s(holds=self._holds)

    @property
    def _holds(self) -> bool:
        return self._probe.holds and not self._problem

    def take(self, readable: Collection[int], now_s: float) -> bool:
        """Look if that is due; return whether there is a sign."""
        if now_s < self.due_s():
            return False
        if self._look is None:
            self._looked_s, self._look = now_s, self._probe.look(now_s)
        if not self._is_done(self._look, now_s):
            return False
        self._look = None
        if not self._holds:
            self._told_s = -inf
            return False
        if now_s < self._told_s + self._pace.repeat_s:
            return False
        self._told_s = now_s
        return True

    def _is_done(self, look: Iterator[None], now_s: float) -> bool:
        """Go on with a look; return whether it is over."""
        until_s = time.monotonic() + WORK_S
        try:
            for _ in look:
                if time.monotonic() >= until_s:
                    self._go_on_s = now_s + REST_S
                    return False
            self._problem = ""
        except OSError as error:
            self._problem = f"{error.filename or 'it'}: {error.strerror or error}"
        except CannotLook as why:
            self._problem = str(why)
        return True

    def state(self) -> SensorState:
        """Return how it does."""
        if self._problem:
            return SensorState(self.kind, False, self._problem)
        return SensorState(self.kind, True, self._probe.note, self._probe.holds)

    def close(self) -> None:
        """Look no more."""
        self._probe.close()


class Threshold:
    """Whether a number is too high: from above its bound until it is far below."""

    def __init__(self, most: float, below: float) -> None:
        self._most, self._below = most, below
        self.is_over = False

    def take(self, number: float) -> bool:
        """Take in the number as it is now; return whether it is too high."""
        self.is_over = number >= self._below if self.is_over else number > self._most
        return self.is_over

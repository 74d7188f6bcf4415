"""The sensor of sleep: when a machine wakes nobody knows who is there, as when watching begins."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection

from iriai.launcher.system.syscalls import ClockSteps
from iriai.model.owner import SensorState, SignKind

SLEPT_MIN_S = 0.1
"""By so much the clocks differ more than before."""


def slept_s() -> float:
    """Return how long the machine has slept since it was started: one clock counts that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class WakeSensor:
    """Gives the sign with which watching begins, each time that the machine has slept.

    It needs no login manager, and no daemon: the kernel tells that clocks were set.
    """

    kind = SignKind.START

    def __init__(self, slept_s: Callable[[], float] = slept_s) -> None:
        self._slept_s = slept_s
        self._known_s = slept_s()
        self._steps = ClockSteps()

    def descriptors(self, now_s: float) -> list[int]:
        """Return what to wait for until it is readable, or `due_s` has come."""
        return [self._steps.fd]

    def due_s(self) -> float:
        """Return infinity: it waits for the kernel, and looks whenever others have something."""
        return math.inf

    def take(self, readable: Collection[int], now_s: float) -> bool:
        """Return whether the machine has slept since the last call."""
        if self._steps.fd in readable:
            self._steps.acknowledge()
        slept_s = self._slept_s()
        has_slept = slept_s > self._known_s + SLEPT_MIN_S
        self._known_s = slept_s
        return has_slept

    def state(self) -> SensorState:
        """Return how it does; it shows nobody's presence."""
        return SensorState(self.kind, False, "clocks")

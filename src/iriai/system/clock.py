"""The two clocks of a machine (see iriai.model.instant), read in one place."""

from __future__ import annotations

import time

from iriai.model.instant import Instant


def now(cause: str) -> Instant:
    """Return this moment on the steady and the wall clock, with its cause."""
    return Instant(time.clock_gettime(time.CLOCK_BOOTTIME), time.time(), cause)


def steady_s() -> float:
    """Return the seconds since boot, including those in which the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_s() -> float:
    """Return the seconds since 1970, for people and the ledger."""
    return time.time()

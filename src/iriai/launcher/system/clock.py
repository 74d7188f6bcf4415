"""The two clocks of a machine (see iriai.model.instant)."""

from __future__ import annotations

import time


def steady_s() -> float:
    """Seconds since boot, also those in which the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_s() -> float:
    """Seconds since 1970, for people and the ledger."""
    return time.time()

"""The clocks, read in one place."""

from __future__ import annotations

import time

from iriai.model.instant import Instant


def now(cause: str) -> Instant:
    """This moment: since boot (also asleep), on the wall, and what it is for."""
    return Instant(time.clock_gettime(time.CLOCK_BOOTTIME), time.time(), cause)

"""How long nobody has used the machine's terminals, as HTCondor counts KeyboardIdle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

TERMINALS = ("/dev/pts/[0-9]*", "/dev/tty[0-9]*", "/dev/console")
"""The kernel notes the time when somebody types there; to eight seconds, which is fine enough. Of a
graphical session it is the terminals in its windows that are seen, not the mouse."""


def keyboard_idle_s() -> float | None:
    """Seconds since the last input on any terminal; None: there is none to look at."""
    found = list(_used_wall_s())
    return max(0.0, time.time() - max(found)) if found else None


def _used_wall_s() -> Iterator[float]:
    for pattern in TERMINALS:
        for path in Path("/").glob(pattern[1:]):
            try:
                yield path.stat().st_atime
            except OSError:  # it was closed meanwhile
                continue

"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

WAIT_S = 60.0
"""Only a failure takes so long; a busy machine is none."""
_PAUSE_S = 0.005


def until(
    condition: Callable[[], Result],
    what: str = "the condition",
    pause_s: float = _PAUSE_S,
    wait_s: float | None = None,
) -> Result:
    """What `condition` returns, once that is true; it is asked again after each `pause_s`.

    `wait_s` is the longest wait; None: `WAIT_S`, which whoever starts many processes may raise.
    """
    wait_s = WAIT_S if wait_s is None else wait_s
    deadline_s = time.monotonic() + wait_s
    while not (result := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{what} did not come true within {wait_s:.0f} s")
        time.sleep(pause_s)
    return result


def is_gone(pid: int) -> bool:
    """Whether the process is no more (one that nobody has buried is gone as well)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True

"""How late switches are, and how exactly tasks take turns here in words for `doctor`."""

from __future__ import annotations

from collections import deque

from iriai.launcher.contract.messages import Enforcement
from iriai.launcher.slices.real_time import is_real_time
from iriai.launcher.slices.switch_messages import Switched

KEPT = 512
"""Switches of which it is known how late they were."""


class Lateness:
    """How late the last switches were."""

    def __init__(self) -> None:
        self._late_s: deque[float] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        return len(self._late_s)

    def add(self, late_s: float) -> None:
        """Take in one switch."""
        self._late_s.append(late_s)

    def percentile(self, percent: float) -> float:
        """Return what so many of a hundred were not later than; 0 without any."""
        ordered = sorted(self._late_s)
        if not ordered:
            return 0.0
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


BUSY = "where processors are busy, switches can be late by tens of milliseconds"


def switching_row(version: int, found: Switched | None) -> Enforcement:
    """Return how exactly tasks take turns.

    `version` of control groups has the freezers, 0: there are none. `found` is the last report of
    the process that switches; None: it has not switched yet.
    """
    if not version:
        note = "the launcher stops and continues processes itself, late by what else it does"
        return Enforcement("time-slices", "signals", note)
    freezer = f"cgroup v{version} freezer"
    note = "" if found is None else _words(found)
    if is_real_time() if found is None else found.is_real_time:
        return Enforcement("time-slices", f"{freezer}, by a process at real-time priority", note)
    by = f"without real-time priority: {freezer}"
    return Enforcement("time-slices", by, "; ".join(filter(None, (note, BUSY))))


def _words(found: Switched) -> str:
    p50, p99 = _milliseconds(found.late_p50_s), _milliseconds(found.late_p99_s)
    if found.switches == 1:
        return f"the last switch was late by {p99}"
    return f"the last {found.switches} switches were late by {p50} (p50), {p99} (p99)"


def _milliseconds(duration_s: float) -> str:
    return f"{duration_s * 1000:.2g} ms"

"""How late switches are, from the last few of them."""

from __future__ import annotations

from collections import deque

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

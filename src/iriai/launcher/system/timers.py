"""Timers in one heap, without periodic wake-ups."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol


class TimerSubject(Protocol):
    """The subject of a timer; timers of subjects that are over are dropped."""

    is_over: bool


STALE_MIN = 256
"""Entries of ended tasks that may stay in the heap before it is rebuilt."""


class Timers:
    """Actions by their moments on the steady clock (seconds since boot)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TimerSubject, Callable[[float], None]]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, steady_s: float, about: TimerSubject, action: Callable[[float], None]) -> None:
        """Call `action(now_s)` once `steady_s` has come, unless `about` is over by then."""
        self._sequence += 1
        heapq.heappush(self._heap, (steady_s, self._sequence, about, action))

    def next_s(self) -> float | None:
        """Return when the next action is due, or None."""
        while self._heap and self._heap[0][2].is_over:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self, now_s: float) -> list[tuple[TimerSubject, Exception]]:
        """Run what is due at `now_s`, in order of time.

        Returns what failed with an unforeseen error: its subject, and the error.
        """
        failed: list[tuple[TimerSubject, Exception]] = []
        while self._heap and self._heap[0][0] <= now_s:
            _, _, about, action = heapq.heappop(self._heap)
            if about.is_over:
                continue
            try:
                action(now_s)
            except Exception as error:  # noqa: BLE001 - it costs what it is about alone
                failed.append((about, error))
        return failed

    def drop_stale(self, live: int) -> None:
        """Drop entries of ended tasks if they outnumber those of `live` running ones.

        A task with a time limit of hours that ends at once leaves an entry for hours.
        """
        if len(self._heap) > STALE_MIN + 8 * live:
            self._heap = [entry for entry in self._heap if not entry[2].is_over]
            heapq.heapify(self._heap)

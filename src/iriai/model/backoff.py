"""Pauses that double with each failure in a row."""

from __future__ import annotations

_DOUBLINGS_MAX = 16
"""More failures would give a longer pause than any caller needs."""


def pause_s(failures: int, first_s: float, max_s: float) -> float:
    """Return the pause after so many failures in a row, counted from 0."""
    return min(max_s, first_s * 2.0 ** min(failures, _DOUBLINGS_MAX))


class Backoff:
    """A pause on the steady clock, one at a time."""

    __slots__ = ("_first_s", "_max_s", "until_s")

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self.until_s: float | None = None
        """The time of the next try; None: there is no pause."""

    def is_over(self, now_s: float) -> bool:
        """End the pause if it is over now, and return whether it was."""
        if self.until_s is None or now_s < self.until_s:
            return False
        self.until_s = None
        return True

    def _begin(self, failures: int, now_s: float) -> bool:
        """Pause after so many failures in a row, counted from 0; return False during a pause."""
        if self.until_s is not None:
            return False
        self.until_s = now_s + pause_s(failures, self._first_s, self._max_s)
        return True

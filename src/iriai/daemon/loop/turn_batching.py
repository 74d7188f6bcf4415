"""How close together turns may be that serve other machines.

Each of several busy machines sends what happened there in a message of its own. A turn for each
would be a pass, a commit and an answer for each. In a stream of news turns are therefore some
milliseconds apart, so that one serves what has come meanwhile from all; news after a silence, and
what users and alarms ask, is never held back.
"""

from __future__ import annotations

GATHER_S = 0.004
"""The least time between turns in a stream; as the launcher gathers (`iriai.launcher.server`). It
is little beside what a task's start costs, and several machines' messages come within it."""
STREAM_GAP_S = 3 * GATHER_S
"""Turns that follow each other within this are a stream: with fewer there is nothing to gather."""
STREAM_TURNS = 8
"""So many in a row, before turns are spaced: a single job, from its submission to its end, has
four, and must not wait."""


class TurnBatching:
    """Counts turns in a row. Times are of a steady clock, in seconds."""

    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._in_a_row = 0

    def turned(self, now_s: float) -> None:
        """A turn began."""
        if now_s - self._last_s <= STREAM_GAP_S:
            self._in_a_row += 1
        else:
            self._in_a_row = 0
        self._last_s = now_s

    def rest_s(self, now_s: float) -> float:
        """How long news of another machine is to wait for more; 0 or less: not at all."""
        if self._in_a_row < STREAM_TURNS:
            return 0.0
        return self._last_s + GATHER_S - now_s

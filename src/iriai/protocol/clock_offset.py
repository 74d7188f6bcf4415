"""Estimates the offset of another machine's wall clock from questions and answers.

RFC 5905, sections 8 and 10: of the last exchanges the one that took least is believed, since what
delays a message makes its offset wrong by at most half of the delay.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import NamedTuple

EXCHANGES_KEPT = 8
"""As NTP's clock filter: enough to have one without a delay among them, few enough to follow a
clock that was set."""


class Estimate(NamedTuple):
    """The estimate of one exchange."""

    offset_s: float
    """The other machine's wall clock minus this one's; positive if the other is ahead."""
    error_s: float
    """The largest possible error: half the round trip."""


class ClockOffset:
    """The clock offset of one machine."""

    def __init__(self) -> None:
        self._last: deque[Estimate] = deque(maxlen=EXCHANGES_KEPT)
        self.answered_s = -inf
        """When the last answer came, on the steady clock."""

    def add(
        self, asked_steady_s: float, now_steady_s: float, now_wall_s: float, wall_s: float
    ) -> None:
        """An answer came now to what was asked then; `wall_s` is the answerer's wall clock.

        An answer from before its question is no answer, and is left out.
        """
        round_trip_s = now_steady_s - asked_steady_s
        if round_trip_s >= 0:
            half_s = round_trip_s / 2
            self.answered_s = now_steady_s
            self._last.append(Estimate(wall_s - (now_wall_s - half_s), half_s))

    def best(self) -> Estimate | None:
        """Return the estimate with the smallest error; None before the first answer."""
        return min(self._last, key=lambda estimate: estimate.error_s, default=None)

"""Back-off before a process that died is started again."""

from __future__ import annotations

from iriai.model.backoff import pause_s

LONG_LIFE_S = 2.0
"""A process that was killed after so long had started; its end begins a new series."""
FIRST_DELAY_S = 0.1
"""Before the second start of a series; the first is immediate."""
DELAY_MAX_S = 30.0
"""Rare enough to cost nothing, often enough that nobody has to start it by hand. A process that
fails by itself after living so long begins a new series: no loop is faster than this."""
KILLED_DELAY_MAX_S = 1.0
"""It was killed from outside: its start is no more likely to fail than before."""


class RestartBackoff:
    """Doubles the pause with each short life in a row."""

    def __init__(self) -> None:
        self.failures = 0
        """Short lives in a row that ended by themselves."""
        self._short_lives = 0

    def delay_s(self, lived_s: float, *, killed: bool) -> float:
        """Return the pause before the next start, after a life of `lived_s` that ended so."""
        if lived_s >= (LONG_LIFE_S if killed else DELAY_MAX_S):
            self.forget()
        elif not killed:
            self.failures += 1
        self._short_lives += 1
        if self._short_lives == 1:
            return 0.0
        longest_s = KILLED_DELAY_MAX_S if killed else DELAY_MAX_S
        return pause_s(self._short_lives - 2, FIRST_DELAY_S, longest_s)

    def forget(self) -> None:
        """Begin a new series: the next start is immediate."""
        self.failures = self._short_lives = 0

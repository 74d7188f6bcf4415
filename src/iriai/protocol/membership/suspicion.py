"""Suspicion: the time that a suspected member has to answer (Lifeguard, section IV-B)."""

from __future__ import annotations

from math import log, log10

from iriai.model.instant import Instant
from iriai.protocol.messages.gossip import Doubt

LEAST_FACTOR = 5.0
"""Of log10(n) periods; the paper's alpha."""
MOST_FACTOR = 6.0
"""How many times the least a suspicion lasts that nobody else shares; the paper's beta."""
CONFIRMATIONS = 3
"""Confirmations that shorten a suspicion to the least; the paper's K."""
DOUBTERS_MAX = 8
"""Doubters remembered for one suspicion: more change nothing."""


class Suspicion:
    """The suspicion of one member, until it publishes a later incarnation."""

    def __init__(self, doubt: Doubt, members: int, period_s: float, now: Instant) -> None:
        self._since_s = now.steady_s
        self._least_s = LEAST_FACTOR * max(1.0, log10(max(1, members))) * period_s
        # Two of a cluster are the doubter and the doubted; the others may confirm.
        self._wanted = max(0, min(CONFIRMATIONS, members - 2))
        self._doubters: dict[str, None] = {doubt.by: None}
        self.is_hastened = False
        """Whether another machine declared the member dead."""

    @property
    def doubters(self) -> tuple[str, ...]:
        """The machines that share the suspicion, as far as they are remembered."""
        return tuple(self._doubters)

    def is_shared_by(self, by: str) -> bool:
        """Return whether `by` shares the suspicion already."""
        return by in self._doubters

    def confirm(self, by: str) -> bool:
        """Add a doubter; return whether that is news for others."""
        if by in self._doubters or len(self._doubters) >= DOUBTERS_MAX:
            return False
        self._doubters[by] = None
        return len(self._doubters) <= 1 + CONFIRMATIONS

    def hasten(self) -> bool:
        """Someone says that the member's time is over; whether that is worth telling others.

        It had at least `LEAST_FACTOR` by the clock of whoever says so, and has it by ours: else one
        that lies could have a machine taken for dead that had no time to answer.
        """
        was_hastened, self.is_hastened = self.is_hastened, True
        return not was_hastened

    def slept(self, slept_s: float) -> None:
        """Extend the time by a sleep of this machine."""
        self._since_s += slept_s

    @property
    def until_s(self) -> float:
        """When the member is declared dead."""
        if not self._wanted or self.is_hastened:
            return self._since_s + self._least_s
        most_s = self._least_s * MOST_FACTOR
        shared = log(len(self._doubters)) / log(self._wanted + 1)
        return self._since_s + max(self._least_s, most_s - (most_s - self._least_s) * shared)

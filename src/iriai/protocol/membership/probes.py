"""Probes in progress on one machine: its own, and those that it makes for others."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

HELPS_MAX = 64
"""Concurrent probes for others: as many members would have to miss an answer in one second."""


@dataclass(slots=True)
class OwnProbe:
    """The current probe of this machine's round."""

    machine: str
    number: int
    patience_until_s: float
    """When helpers are asked; infinite after that."""
    helpers: list[str] = field(default_factory=list)
    """The machines that were asked to probe."""
    missed: dict[str, None] = field(default_factory=dict)
    """The helpers that had no answer either."""
    is_answered: bool = False


@dataclass(slots=True)
class Help:
    """A probe for another machine."""

    asker: str
    asked_number: int
    machine: str
    """The probed machine."""
    missed_at_s: float
    """When `ProbeMissed` is sent to the asker."""
    over_at_s: float
    """When the probe is forgotten."""


class Probes:
    """Probes in progress, by number; numbers are this machine's own."""

    def __init__(self) -> None:
        self.own: OwnProbe | None = None
        self._number = 0
        self._helps: dict[int, Help] = {}

    def number(self) -> int:
        """Return an unused number."""
        self._number += 1
        return self._number

    def help(self, help_: Help) -> int | None:
        """Record a probe for another machine and return its number; None if there are too many."""
        if len(self._helps) >= HELPS_MAX:
            return None
        number = self.number()
        self._helps[number] = help_
        return number

    def answered(self, number: int, sender: str) -> Help | None:
        """An answer came; whom it was for, where that is another.

        What someone says who was not asked is no answer.
        """
        own = self.own
        if own is not None and own.number == number:
            own.is_answered |= sender == own.machine or sender in own.helpers
            return None
        help_ = self._helps.get(number)
        if help_ is None or help_.machine != sender:
            return None
        return self._helps.pop(number)

    def missed(self, number: int, sender: str) -> None:
        """Note that a helper had no answer either."""
        own = self.own
        if own is not None and own.number == number and sender in own.helpers:
            own.missed[sender] = None

    def overdue(self, now_s: float) -> list[Help]:
        """Return the probes whose askers must be sent `ProbeMissed` now; forget old ones."""
        due = []
        for number, help_ in list(self._helps.items()):
            if help_.missed_at_s <= now_s:
                help_.missed_at_s = inf
                due.append(help_)
            if help_.over_at_s <= now_s:
                del self._helps[number]
        return due

    def forget(self) -> None:
        """Forget all probes."""
        self.own = None
        self._helps.clear()

    @property
    def next_s(self) -> float:
        """When the next probe is due; infinite if none is."""
        times = [min(help_.missed_at_s, help_.over_at_s) for help_ in self._helps.values()]
        if self.own is not None and not self.own.is_answered:
            times.append(self.own.patience_until_s)
        return min(times, default=inf)

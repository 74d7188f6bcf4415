"""Probes in progress on one machine: its own, and those that it makes for others."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

HELPS_MAX = 64
"""Probes for others at a time: as many members would have to miss their own in one second."""


@dataclass(slots=True)
class OwnProbe:
    """The one that is under way."""

    machine: str
    number: int
    patience_until_s: float
    """When others are asked to try; infinite once they were."""
    helpers: list[str] = field(default_factory=list)
    """Who was asked."""
    missed: dict[str, None] = field(default_factory=dict)
    """Who of them said that there was no answer either."""
    is_answered: bool = False


@dataclass(slots=True)
class Help:
    """A probe for another machine."""

    asker: str
    asked_number: int
    machine: str
    """Who is probed."""
    missed_at_s: float
    """When the asker is told that there was no answer so far."""
    over_at_s: float
    """When an answer interests nobody any more."""


class Probes:
    """Probes in progress, by number; numbers are this machine's own."""

    def __init__(self) -> None:
        self.own: OwnProbe | None = None
        self._number = 0
        self._helps: dict[int, Help] = {}

    def number(self) -> int:
        """One that was not used before."""
        self._number += 1
        return self._number

    def help(self, help_: Help) -> int | None:
        """Remember a probe for another; None where there are too many."""
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
        """A helper had no answer either."""
        own = self.own
        if own is not None and own.number == number and sender in own.helpers:
            own.missed[sender] = None

    def overdue(self, now_s: float) -> list[Help]:
        """Those whose askers are to be told now that there was no answer; forgets old ones."""
        due = []
        for number, help_ in list(self._helps.items()):
            if help_.missed_at_s <= now_s:
                help_.missed_at_s = inf
                due.append(help_)
            if help_.over_at_s <= now_s:
                del self._helps[number]
        return due

    def forget(self) -> None:
        """Nothing is under way any more."""
        self.own = None
        self._helps.clear()

    @property
    def next_s(self) -> float:
        """When something is due."""
        times = [min(help_.missed_at_s, help_.over_at_s) for help_ in self._helps.values()]
        if self.own is not None and not self.own.is_answered:
            times.append(self.own.patience_until_s)
        return min(times, default=inf)

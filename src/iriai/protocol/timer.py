"""The one alarm of a part of a machine: it is set for whatever is due first."""

from __future__ import annotations

from iriai.protocol.messages.effects import Part, WakeAt


class Timer:
    """Never put off: an alarm that rings too early costs a turn in which nothing is due."""

    def __init__(self, part: Part) -> None:
        """`part` is woken."""
        self._part = part
        self._at_s: float | None = None

    def rang(self) -> None:
        """The part was woken: what is due later is to be asked for again."""
        self._at_s = None

    def by(self, steady_s: float) -> list[WakeAt]:
        """Have it ring then, or before: what sets it, and nothing where it is set so."""
        if self._at_s is not None and self._at_s <= steady_s:
            return []
        self._at_s = steady_s
        return [WakeAt(self._part, steady_s)]

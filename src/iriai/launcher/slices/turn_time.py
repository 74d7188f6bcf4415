"""For how long it was not an attempt's turn: its limits and its time do not count that."""

from __future__ import annotations

import msgspec

from iriai.model.time_slices import Cycles


class TaskTurns(msgspec.Struct, eq=False):
    """The turns of one attempt, from a moment on."""

    mask: int
    cycles: Cycles
    since_s: float | None = None
    """From when on they count; None: it has no process, or reasons keep it frozen."""
    path: str = ""
    """The file by which the switching process freezes it; empty: it does not."""
    stands: bool = False
    """Whether the launcher has stopped it by signals, since it is not its turn."""

    def away_s(self, now_s: float) -> float:
        """Return for how long it was not its turn, as far as that counts."""
        if self.since_s is None:
            return 0.0
        return self.cycles.away_s(self.mask, self.since_s, now_s)

    def is_turn(self, now_s: float) -> bool:
        """Return whether it is its turn."""
        return self.cycles.is_turn(self.mask, now_s)

    def after_s(self, now_s: float, left_s: float) -> float:
        """Return when it will have run for `left_s` from now on; inf: never."""
        return self.cycles.after_turn_s(self.mask, now_s, left_s)

"""Time slices of one machine: in which rows of a cycle an attempt runs (docs/spec/015).

Everything here is arithmetic on the machine's steady clock: launcher and simulator reckon alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, inf
from typing import Annotated, NamedTuple

from msgspec import Meta

from iriai.model.bounds import Span
from iriai.model.ids import AttemptId

CYCLE_ROWS_MAX = 32
"""Bits of a mask; an operator may configure fewer rows."""
QUANTUM_MIN_S, QUANTUM_MAX_S = 0.1, 3600.0
QuantumSeconds = Annotated[float, Meta(ge=QUANTUM_MIN_S, le=QUANTUM_MAX_S)]
"""The length of a slice."""
CycleRows = Annotated[int, Meta(ge=0, le=CYCLE_ROWS_MAX)]
"""Rows of a cycle; with 0 or 1 nobody takes turns."""
RowMask = Annotated[int, Meta(ge=0, lt=1 << CYCLE_ROWS_MAX)]
"""Bit r: the attempt runs in row r. Bits beyond the rows of the cycle mean nothing."""


class SliceTurn(NamedTuple):
    """The rows in which an attempt runs."""

    attempt: AttemptId
    mask: RowMask


class SliceCycle(NamedTuple):
    """Rows one after the other, again and again."""

    quantum_s: QuantumSeconds = 1.0
    rows: CycleRows = 0
    row_0_s: Span = 0.0
    """When a row 0 began, on the steady clock."""

    @property
    def takes_turns(self) -> bool:
        """Whether there is more than one row."""
        return self.rows > 1

    def slice_at(self, steady_s: float) -> int:
        """Return the number of the slice at a moment, counted from `row_0_s`."""
        number = floor((steady_s - self.row_0_s) / self.quantum_s)
        if self.begin_s(number + 1) <= steady_s:
            return number + 1
        return number if self.begin_s(number) <= steady_s else number - 1

    def begin_s(self, number: int) -> float:
        """Return when a slice begins."""
        return self.row_0_s + number * self.quantum_s

    def row_at(self, steady_s: float) -> int:
        """Return the row whose slice it is; 0 where nobody takes turns."""
        return self.slice_at(steady_s) % self.rows if self.takes_turns else 0

    def is_turn(self, mask: int, steady_s: float) -> bool:
        """Return whether it is the turn of an attempt with this mask."""
        return not self.takes_turns or bool(mask >> self.row_at(steady_s) & 1)

    def turn_s(self, mask: int, since_s: float, until_s: float) -> float:
        """Return for how long of that time it was the turn of `mask`."""
        if until_s <= since_s:
            return 0.0
        if not self.takes_turns:
            return until_s - since_s
        return self._turn_s(mask, until_s) - self._turn_s(mask, since_s)

    def _turn_s(self, mask: int, until_s: float) -> float:
        """Return the same since `row_0_s`; negative before it."""
        number = self.slice_at(until_s)
        whole, row = divmod(number, self.rows)
        slices = whole * self._own(mask).bit_count() + (mask & ((1 << row) - 1)).bit_count()
        own_s = until_s - self.begin_s(number) if mask >> row & 1 else 0.0
        return slices * self.quantum_s + own_s

    def after_turn_s(self, mask: int, since_s: float, turn_s: float) -> float:
        """Return the first moment by which `mask` has had its turn for `turn_s`; inf: never."""
        if not self.takes_turns or turn_s <= 0.0:
            return since_s + max(0.0, turn_s)
        own = self._own(mask).bit_count()
        if not own:
            return inf
        cycles = max(0, floor(turn_s / (own * self.quantum_s)) - 1)
        left_s = turn_s - cycles * own * self.quantum_s
        at_s = since_s + cycles * self.rows * self.quantum_s
        number = self.slice_at(at_s)
        while True:
            end_s = self.begin_s(number + 1)
            if mask >> number % self.rows & 1:
                if at_s + left_s <= end_s:
                    return at_s + left_s
                left_s -= end_s - at_s
            at_s, number = end_s, number + 1

    def _own(self, mask: int) -> int:
        return mask & ((1 << self.rows) - 1)


class Cycles(NamedTuple):
    """The cycle of a machine, and the one that follows it when its slice is over."""

    now: SliceCycle = SliceCycle()
    then: SliceCycle | None = None
    """The same with another phase; None: the cycle goes on."""
    then_s: Span = 0.0
    """From when on `then` counts, if there is one."""

    def at(self, steady_s: float) -> SliceCycle:
        """Return the cycle that counts at a moment."""
        return self.now if self.then is None or steady_s < self.then_s else self.then

    def followed_by(self, cycle: SliceCycle, steady_s: float) -> Cycles:
        """Return what counts from now on if `cycle` is ordered.

        Another phase counts from the end of the slice on, so that no row comes again and none is
        cut short at once; other rows or another quantum count at once.
        """
        old = self.at(steady_s)
        if not old.takes_turns or old[:2] != cycle[:2]:
            return Cycles(cycle)
        if old == cycle:
            return Cycles(old)
        return Cycles(old, cycle, old.begin_s(old.slice_at(steady_s) + 1))

    def next_s(self, steady_s: float) -> float:
        """Return when the next slice begins after a moment; inf: nobody takes turns."""
        cycle = self.at(steady_s)
        if not cycle.takes_turns:
            return inf
        due_s = cycle.begin_s(cycle.slice_at(steady_s) + 1)
        return due_s if self.then is None or cycle is self.then else min(due_s, self.then_s)

    def is_turn(self, mask: int, steady_s: float) -> bool:
        """Return whether it is the turn of an attempt with this mask."""
        return self.at(steady_s).is_turn(mask, steady_s)

    def away_s(self, mask: int, since_s: float, until_s: float) -> float:
        """Return for how long of that time it was not the turn of `mask`."""
        first_s = min(max(since_s, self.then_s), until_s) if self.then is not None else until_s
        turn_s = self.now.turn_s(mask, since_s, first_s)
        if self.then is not None:
            turn_s += self.then.turn_s(mask, max(since_s, first_s), until_s)
        return max(0.0, until_s - since_s - turn_s)

    def after_turn_s(self, mask: int, since_s: float, turn_s: float) -> float:
        """Return the first moment by which `mask` has had its turn for `turn_s`; inf: never."""
        if self.then is None:
            return self.now.after_turn_s(mask, since_s, turn_s)
        due_s = self.now.after_turn_s(mask, since_s, turn_s)
        if due_s <= self.then_s:
            return due_s
        begin_s = max(since_s, self.then_s)
        left_s = turn_s - self.now.turn_s(mask, since_s, begin_s) if begin_s > since_s else turn_s
        return self.then.after_turn_s(mask, begin_s, left_s)


NO_CYCLES = Cycles()


def masks_of(turns: Iterable[SliceTurn]) -> dict[AttemptId, int]:
    """Return the mask of each attempt that is named; the last one, if it is named twice."""
    return dict(turns)

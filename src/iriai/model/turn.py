"""The turn of a task: in which rows of a cycle of time slices it runs (docs/spec/013)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta

ROWS_MAX = 16
"""The rows of a cycle, at most: with more a task would stand for a minute at slices of 4 s."""

RowCount = Annotated[int, Meta(ge=1, le=ROWS_MAX)]
RowIndex = Annotated[int, Meta(ge=0, lt=ROWS_MAX)]
RowMask = Annotated[int, Meta(ge=0, lt=1 << ROWS_MAX)]
"""A bit for each row."""


class RowSet(NamedTuple):
    """When one task runs."""

    rows: RowCount = 1
    """Of the cycle of its machines; 1: there are no time slices."""
    mask: RowMask = 1
    """The rows in which it runs; 0: it is frozen until it is told otherwise."""

    @property
    def needed(self) -> int:
        """Return the rows that it needs of any cycle: all, if it runs all of the time."""
        return (1 << ROWS_MAX) - 1 if self.is_whole else self.mask

    def stands_s(self, lasted_s: float, quantum_s: float) -> float:
        """Return for how long of that time it was not its turn, at most."""
        others_s = (self.rows - self.mask.bit_count()) * quantum_s
        cycles, rest_s = divmod(lasted_s, self.rows * quantum_s)
        return cycles * others_s + min(rest_s, others_s)

    @property
    def is_of_its_rows(self) -> bool:
        """Return whether it names no row that its cycle does not have."""
        return self.mask < 1 << self.rows

    @property
    def is_whole(self) -> bool:
        """Return whether it runs all of the time."""
        return self.mask == (1 << self.rows) - 1


ALWAYS = RowSet()
"""It runs all of the time."""
NEVER = RowSet(1, 0)
"""It is frozen."""

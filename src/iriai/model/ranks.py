"""How many ranks a parallel task has, and how they lie on machines (docs/spec/011, section 2)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

RANKS_MAX = 65_536
"""Of one attempt."""
SEATS_MAX = 4_096
"""Machines of one attempt."""

RankCount = Annotated[int, msgspec.Meta(ge=1, le=RANKS_MAX)]
SeatCount = Annotated[int, msgspec.Meta(ge=1, le=SEATS_MAX)]


class RankShape(NamedTuple):
    """Ranks, machines, and ranks on each machine."""

    least: RankCount = 1
    most: RankCount = 1
    """As many as fit when the task starts, of `least` to `most`."""
    nodes: SeatCount | None = None
    """Exactly so many machines, with ranks spread evenly; None: as few as hold them."""
    per_node: RankCount | None = None
    """Exactly so many ranks on each machine; None: as many as fit."""

    def ranks_below(self, ranks: int) -> int:
        """Return the largest number of ranks that the shape has, `ranks` at most; 0: none."""
        ranks = min(ranks, self.most)
        if self.per_node is not None:
            ranks -= ranks % self.per_node
        return ranks if ranks >= max(self.least, self.nodes or 1) else 0


ONE = RankShape()
"""The shape of a task that is not parallel."""

"""Backfill: the reserved head keeps its earliest start, others fill in before it.

"easy" is EASY backfill after Lifka, "The ANL/IBM SP scheduling system" (JSSPP 1995); "none" is
first come, first served (docs/spec/003, section 7). Times are on the steady clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Protocol, TypeVar

from iriai.model.ids import JobId
from iriai.model.resources import Resources


@dataclass(slots=True)
class ReservedHead:
    """A task that could not start when its account was drawn, and the place kept for it."""

    job: JobId
    machine: str
    resources: Resources
    """What is kept: what the task takes, or the whole machine where it runs alone there."""
    start_s: float
    """When it starts at the latest, if every claim ends at its end."""
    spare: Resources
    """What is left beside it at that moment."""
    told_start_s: float | None = None
    """What its home was told."""
    stay_s: float | None = None
    """For how long it needs its place from then on; None: for ever."""

    def tolerates(self, resources: Resources, stay_s: float | None, now_s: float) -> bool:
        """Whether `resources` may be claimed now for `stay_s` without delaying this head."""
        return self._ends_before(stay_s, now_s) or resources.fits_in(self.spare)

    def filled(self, resources: Resources, stay_s: float | None, now_s: float) -> None:
        """Such a claim was made: what outlasts the head's start takes from what is spare."""
        if not self._ends_before(stay_s, now_s):
            self.spare = self.spare.minus(resources)

    def _ends_before(self, stay_s: float | None, now_s: float) -> bool:
        return stay_s is not None and now_s + stay_s <= self.start_s


class Filling(Protocol):
    """A waiting task that could start beside the reserved heads now."""

    @property
    def stay_s(self) -> float | None:
        """How long it keeps its place at most; None: open."""
        ...


Fill = TypeVar("Fill", bound=Filling)


@dataclass(frozen=True, slots=True)
class Backfill:
    """Chooses jobs that may pass a reserved head, in order. It keeps nothing between two calls."""

    passes_heads: bool = True
    """False: where a head could ever run, nothing else starts while it waits."""
    is_shortest_first: bool = False
    """Whether of the jobs that do not delay the head the shortest starts, not the first (Tsafrir,
    Etsion, Feitelson, IEEE TPDS 18, 2007)."""

    def next_fill(self, fitting: Iterator[Fill]) -> Fill | None:
        """Return the task that starts, of those that could start now; None where there is none.

        `fitting` yields them in their order of precedence, one for each kind of task (those alike
        in what they take and how long they stay), and finds the next only when it is asked.
        """
        if self.is_shortest_first:
            return min(fitting, key=_stay_s, default=None)
        return next(fitting, None)


def _stay_s(fill: Filling) -> float:
    return inf if fill.stay_s is None else fill.stay_s


CONSERVATIVE = "conservative"
"""A whole plan, see `conservative`; it has no reserved heads."""
BACKFILLS: Mapping[str, Backfill] = MappingProxyType(
    {
        "easy": Backfill(),
        "easy-sjbf": Backfill(is_shortest_first=True),
        "none": Backfill(passes_heads=False),
        CONSERVATIVE: Backfill(),
    }
)
"""By their names in the configuration."""

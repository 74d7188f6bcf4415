"""Switches between two gangs in time slices, from what their ranks noted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from harness.report import Figures, percentile


class Gaps(Protocol):
    """The notes of one rank."""

    def gaps(self) -> list[tuple[float, float]]:
        """Return the last moment before each pause of the rank, and the first after it."""


class GangTurn(NamedTuple):
    """A moment at which one of two gangs was to go on, and the other to pause."""

    gang: int
    due_s: float


def steady_s() -> float:
    """Return the clock by which slices are counted, and by which ranks note."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def planned_turns(row_0_s: float, quantum_s: float, slices: int) -> list[GangTurn]:
    """Return the turns of two gangs, of which the first has its slice at `row_0_s`.

    The first two are left out.
    """
    return [GangTurn(number % 2, row_0_s + number * quantum_s) for number in range(2, slices)]


def noted_turns(
    gangs: Sequence[Sequence[Gaps]], since_s: float, quantum_s: float, slices: int
) -> list[GangTurn]:
    """Return the turns in so many slices, by pauses of the first rank of each gang."""
    until_s = since_s + (slices + 0.5) * quantum_s
    found = sorted(
        (after_s, number)
        for number, gang in enumerate(gangs)
        for before_s, after_s in gang[0].gaps()
        if after_s - before_s > quantum_s / 2 and since_s < after_s < until_s
    )
    return [GangTurn(number, after_s) for after_s, number in found]


class Switches:
    """Of one way to switch: how exactly the ranks followed."""

    def __init__(
        self, gangs: Sequence[Sequence[Gaps]], turns: Sequence[GangTurn], quantum_s: float
    ) -> None:
        if len(turns) < 2:
            raise RuntimeError("the gangs take no turns")
        self.skews_ms: list[float] = []
        """Of each turn, from the first rank that went on to the last one."""
        idle_s, overlap_s = list[float](), list[float]()
        gaps = [[rank.gaps() for rank in gang] for gang in gangs]
        for gang, due_s in turns:
            begins = [_nearest([b for _, b in own], due_s, quantum_s) for own in gaps[gang]]
            ends = [_nearest([a for a, _ in own], due_s, quantum_s) for own in gaps[1 - gang]]
            self.skews_ms.append(1000 * (max(begins) - min(begins)))
            for begin_s, end_s in zip(begins, ends, strict=True):
                idle_s.append(max(0.0, begin_s - end_s))
                overlap_s.append(max(0.0, end_s - begin_s))
        self.idle_part = statistics.mean(idle_s) / quantum_s
        self.overlap_part = statistics.mean(overlap_s) / quantum_s

    def add_to(self, figures: Figures, prefix: str = "") -> None:
        """Add the numbers of this run."""
        figures.add(f"{prefix}skew_p50_ms", percentile(self.skews_ms, 50))
        figures.add(f"{prefix}skew_p99_ms", percentile(self.skews_ms, 99))
        figures.add(f"{prefix}idle_part", self.idle_part)
        figures.add(f"{prefix}overlap_part", self.overlap_part)


def _nearest(moments: list[float], due_s: float, quantum_s: float) -> float:
    found = min(moments, key=lambda each: abs(each - due_s), default=float("inf"))
    if abs(found - due_s) > quantum_s / 2:
        raise RuntimeError(f"a rank has not followed the switch at {due_s:.3f}")
    return found

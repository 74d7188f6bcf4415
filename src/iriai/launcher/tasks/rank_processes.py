"""The processes of a seat of several: started in order of rank and stage, reaped one by one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from iriai.launcher.spawn.spawn import SpawnError
from iriai.launcher.spawn.stage_pipes import StagePipes
from iriai.launcher.spawn.streams import TaskEnds
from iriai.system.passwd_cache import Login


class RankStage(NamedTuple):
    """Which process of a seat."""

    rank: int
    stage: int
    """Of the parallel pipe, from 0; 0 without one."""


class RankEnd(NamedTuple):
    """How a rank ended."""

    place: RankStage
    """The process that decides: of a pipe the last that failed, as with a shell's `pipefail`."""
    status: int
    """Its wait status."""
    failure: SpawnError | None
    """What its helper reported, if it could not become the program."""

    @property
    def words(self) -> str:
        """Return it for people."""
        code = os.waitstatus_to_exitcode(self.status)
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"ended by {signal.Signals(-code).name}"
        except ValueError:  # a real-time signal
            return f"ended by signal {-code}"


class RankProcesses:
    """The processes of one seat, until all of them were reaped."""

    def __init__(self, first: int, ranks: int, stages: int, *, keep_going: bool) -> None:
        """`first` is the number of the first of so many ranks, of so many processes each."""
        self.stages = stages
        self._pipes = StagePipes(stages)
        self._first = first
        self._count = ranks * stages
        self._started = 0
        self._keep_going = keep_going
        self._is_decided = False
        self.live: dict[int, RankStage] = {}
        """By process that was not reaped."""
        self.pids: list[int] = []
        """All that were started."""
        self.failed: RankEnd | None = None
        """The lowest rank that failed; those count that did so before the others were ended."""
        self._open: dict[int, tuple[int, RankEnd | None]] = {}
        """Of each rank of a pipe some of whose stages have ended: how many have not, and the end
        that counts so far."""

    @property
    def next_place(self) -> RankStage | None:
        """What is to be started next; None: nothing."""
        if self._started >= self._count:
            return None
        rank, stage = divmod(self._started, self.stages)
        return RankStage(self._first + rank, stage)

    def stage_ends(self, login: Login, of_rank: Callable[[], TaskEnds]) -> TaskEnds:
        """Return what becomes 0, 1 and 2 of the process that is started next.

        The caller closes them. `of_rank` makes the streams of a rank. Raises OSError.
        """
        return self._pipes.ends(self._started % self.stages, login, of_rank)

    @property
    def is_over(self) -> bool:
        """Whether none is left, or to come."""
        return not self.live and self._started >= self._count

    def started(self, pid: int) -> None:
        """Take in the process of `next_place`."""
        place = self.next_place
        if place is None:
            raise RuntimeError("there was no process to be started")
        self.live[pid] = place
        self.pids.append(pid)
        self._started += 1

    def start_no_more(self) -> None:
        """Start none of the rest."""
        self._count = self._started
        self._pipes.close()

    def ended(self, pid: int, status: int, failure: SpawnError | None) -> None:
        """Take in the end of a process."""
        place = self.live.pop(pid)
        end = RankEnd(place, status, failure) if status else None
        if self.stages > 1:
            left, known = self._open.pop(place.rank, (self.stages, None))
            if end is None or (known is not None and known.place > place):
                end = known
            if left > 1:
                self._open[place.rank] = left - 1, end
                return
        if end is None or self._is_decided:
            return
        if self.failed is None or place.rank < self.failed.place.rank:
            self.failed = end

    def aborted(self, rank: int, exit_code: int) -> None:
        """Take in that a rank wants all to end, before its own process has ended."""
        if not self._is_decided and (self.failed is None or rank < self.failed.place.rank):
            self.failed = RankEnd(RankStage(rank, 0), exit_code << 8, None)

    def must_end(self) -> bool:
        """Return once whether the rest has to be ended, since a rank has failed."""
        if self.failed is None or self._keep_going or self._is_decided:
            return False
        self._is_decided = True
        return True

    def words(self, end: RankEnd) -> str:
        """Return which process ended so, for people."""
        stage = f"stage {end.place.stage + 1} of " if self.stages > 1 else ""
        return f"{stage}rank {end.place.rank}"

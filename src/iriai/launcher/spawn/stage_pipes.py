"""The pipes between the stages of a rank (docs/spec/011, section 10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from iriai.launcher.spawn.streams import NO_ENDS, TaskEnds, give_to
from iriai.system.passwd_cache import Login


class StagePipes:
    """Connects the stages of one rank after the other, each rank's from the first to the last."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._ends = NO_ENDS
        """What the rank has of its streams, as far as no stage has it."""
        self._reads = -1
        """What the stage before writes into."""

    def ends(self, stage: int, login: Login, of_rank: Callable[[], TaskEnds]) -> TaskEnds:
        """Return what becomes 0, 1 and 2 of the next stage, which the caller closes.

        `of_rank` makes the streams of a rank. Raises OSError; nothing more can be connected then.
        """
        try:
            if stage == 0:
                self.close()
                self._ends = of_rank()
            return self._next(stage, login)
        except OSError:
            self.close()
            raise

    def _next(self, stage: int, login: Login) -> TaskEnds:
        of_rank, stdin = self._ends, self._reads if stage else self._ends.stdin
        if stage + 1 == self._stages:
            self._ends, self._reads = NO_ENDS, -1
            return TaskEnds(stdin, of_rank.stdout, of_rank.stderr)
        stderr = os.dup(of_rank.stderr) if of_rank.stderr >= 0 else -1
        try:
            reads, writes = os.pipe2(os.O_CLOEXEC)
        except OSError:
            if stderr >= 0:
                os.close(stderr)
            raise
        self._ends, self._reads = of_rank._replace(stdin=-1), reads
        for fd in (reads, writes):
            with suppress(OSError):  # it works, but cannot be opened again by its name
                give_to(fd, login, 0o600)
        return TaskEnds(stdin, writes, stderr)

    def close(self) -> None:
        """Close what no stage has."""
        self._ends.close()
        if self._reads >= 0:
            os.close(self._reads)
        self._ends, self._reads = NO_ENDS, -1

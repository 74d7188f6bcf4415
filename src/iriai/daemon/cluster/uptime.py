"""Uptime of this machine: the share of the time that it is online, measured and stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.identity.storage.cluster_files import ClusterFiles
from iriai.model.availability import Steadiness
from iriai.model.problem import Problem
from iriai.system.clock import now as read_clocks

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""Between two looks."""
SLEPT_S = 3 * LOOK_S
"""A look that comes so late shows that the machine slept: it was away."""
KEEP_S = 900.0
"""Between two writes. What a crash loses is at most that much, counted as away."""
TOLD_ANEW = 0.02
"""By how much it changes before others are told: a rank that moved with each hour would move the
broker with it."""


class UptimeRecord:
    """The measured uptime of this machine, stored across restarts."""

    def __init__(self, files: ClusterFiles, engine: Engine, on_change: Callable[[], None]) -> None:
        """`on_change` is called when `told` changes."""
        self._files = files
        self._engine = engine
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.TimerHandle | None = None
        wall_s = read_clocks("steadiness").wall_s
        self._known = files.availability().seen(wall_s, there=False)
        self._kept_wall_s = wall_s
        self.told = self._known.value
        """The published uptime, from 0 to 1."""

    def begin(self) -> None:
        """Measure from now on, every `LOOK_S`."""
        self._looking = self._loop.call_later(LOOK_S, self._poll)

    def close(self) -> None:
        """Measure once more, and store the result."""
        if self._looking is not None:
            self._looking.cancel()
        self._count()
        try:
            self._keep(self._known)
        except Problem as problem:
            _warn(problem)

    def _poll(self) -> None:
        self._count()
        if abs(self._known.value - self.told) >= TOLD_ANEW:
            self.told = self._known.value
            self._on_change()
        if self._known.wall_s - self._kept_wall_s >= KEEP_S:
            self._kept_wall_s = self._known.wall_s
            self._engine.in_thread(partial(self._keep, self._known), _stored)
        self._looking = self._loop.call_later(LOOK_S, self._poll)

    def _count(self) -> None:
        wall_s = read_clocks("steadiness").wall_s
        self._known = self._known.seen(wall_s, there=wall_s - self._known.wall_s < SLEPT_S)

    def _keep(self, known: Steadiness) -> None:
        """Store `known`; also called in a thread, since a disk may be slow."""
        if self._files.exist():
            self._files.keep_availability(known)


def _stored(result: asyncio.Future[None]) -> None:
    try:
        result.result()
    except Problem as problem:
        _warn(problem)


def _warn(problem: Problem) -> None:
    log.warning("the steadiness of this machine cannot be stored: %s", problem)

"""Memory that finished jobs leave goes back to the system, once few finish any more."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Protocol

from iriai.daemon.loop.engine import Engine

LOOK_S = 2.0
FREED_MIN_BYTES = 4 << 20
"""Of jobs: what less leaves is used again."""
QUIET = 0.25
"""Of what was freed since memory was given back: as long as more comes between two looks, the end
of it is waited for."""


class Freed(Protocol):
    """What is asked of the jobs that a home has."""

    freed_bytes: int


def give_back() -> None:
    """Give the system what the C library keeps for later."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # of glibc alone
        trim(0)


class FreedMemory:
    """See the module."""

    def __init__(
        self, engine: Engine, freed: Freed, give_back: Callable[[], None] = give_back
    ) -> None:
        self._engine = engine
        self._freed = freed
        self._give_back = give_back
        self._seen_bytes = self._given_bytes = freed.freed_bytes

    def begin(self) -> None:
        """Look again and again."""
        self._engine.later(LOOK_S, self._poll)

    def _poll(self) -> None:
        now_bytes = self._freed.freed_bytes
        lately, in_all = now_bytes - self._seen_bytes, now_bytes - self._given_bytes
        self._seen_bytes = now_bytes
        if in_all >= FREED_MIN_BYTES and lately <= QUIET * in_all:
            self._given_bytes = now_bytes
            self._give_back()
        self._engine.later(LOOK_S, self._poll)

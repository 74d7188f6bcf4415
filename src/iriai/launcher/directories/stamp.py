"""The state of a directory when it was made, by which its task's changes are noticed."""

from __future__ import annotations

import os

from iriai.system.clock import steady_s

COARSE_STEP_S = 2.5
"""The coarsest clock by which a file system stamps changes has steps of two seconds."""
FINE_STEP_S = 0.05
"""Others take the system's coarse clock, with steps of at most ten milliseconds."""
_FINE_NS = 1_000_000
"""A stamp with parts of a millisecond is of a fine clock."""


class Stamp:
    """When the system last changed a directory, or anything in it; no user can set that."""

    __slots__ = ("_changed_ns", "_content", "_fd", "_final_s", "_mode")

    def __init__(self, fd: int) -> None:
        """`fd` is open as long as this is used."""
        found = os.fstat(fd)
        self._fd = fd
        self._changed_ns = found.st_ctime_ns
        self._mode = found.st_mode
        self._content = frozenset(os.listdir(fd))
        step_s = FINE_STEP_S if self._changed_ns % _FINE_NS else COARSE_STEP_S
        self._final_s = steady_s() + step_s
        """Each change that is later than this changes the stamp."""

    def is_untouched(self, begun_s: float) -> bool:
        """Return whether a task that began at `begun_s` on the steady clock changed nothing."""
        found = os.fstat(self._fd)
        if found.st_ctime_ns != self._changed_ns:
            return False
        if begun_s > self._final_s:
            return True
        return found.st_mode == self._mode and self._content == frozenset(os.listdir(self._fd))

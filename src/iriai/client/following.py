"""Output files of tasks, read while they grow."""

from __future__ import annotations

import os
from collections.abc import Callable

READ_BYTES = 1 << 16
"""One read: enough for speed, little enough that two streams take turns."""
PAUSE_MIN_S = 0.001
"""After something new was read: more is likely at once."""
PAUSE_MAX_S = 0.05
"""When nothing new comes: not noticed by people, and next to no work."""

Sink = Callable[[bytes], None]


class FollowedFile:
    """A file and how far it was read. It need not exist yet."""

    def __init__(self, path: str, sink: Sink) -> None:
        self._path = path
        self._sink = sink
        self._descriptor: int | None = None

    def advance(self) -> bool:
        """Hand what is new to the sink, at most `READ_BYTES`; whether there was something.

        Raises:
            OSError: the file is there and cannot be read.
        """
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
        data = os.read(self._descriptor, READ_BYTES)
        if data:
            self._sink(data)
        return bool(data)

    def close(self) -> None:
        """Read no more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class FollowedFiles:
    """Several files that are read in turns, and how long to pause between."""

    def __init__(self) -> None:
        self._files: dict[str, FollowedFile] = {}
        self.pause_s = PAUSE_MIN_S
        """How long nothing need be read: short after something new, longer and longer after."""

    def add(self, path: str, sink: Sink) -> None:
        """Follow the file at `path` too, from its beginning."""
        if path and path not in self._files:
            self._files[path] = FollowedFile(path, sink)

    def advance(self) -> bool:
        """Hand on something new of each file; whether there was any."""
        moved = False
        for file in self._files.values():
            moved |= file.advance()
        self.pause_s = PAUSE_MIN_S if moved else min(PAUSE_MAX_S, self.pause_s * 2)
        return moved

    def finish(self) -> None:
        """Hand on everything up to the end of each file, and close them."""
        while self.advance():
            pass
        for file in self._files.values():
            file.close()
        self._files.clear()

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

    def __init__(self, path: str, sink: Sink, offset: int = 0) -> None:
        self.offset = offset
        """How many bytes were handed on."""
        self.users = 1
        """How many tasks write to it."""
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
        data = os.pread(self._descriptor, READ_BYTES, self.offset)
        self.offset += len(data)
        if data:
            self._sink(data)
        return bool(data)

    def finish(self) -> None:
        """Hand on everything up to the end, and close the file."""
        while self.advance():
            pass
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class FollowedFiles:
    """Several files that are read in turns, and how long to pause between.

    Tasks may share a file: what is in it is handed on once.
    """

    def __init__(self) -> None:
        self._files: dict[str, FollowedFile] = {}
        self._offsets: dict[str, int] = {}
        """Of files that were released: how far they were read."""
        self.pause_s = PAUSE_MIN_S
        """How long nothing need be read: short after something new, longer and longer after."""

    def add(self, path: str, sink: Sink) -> None:
        """Follow the file at `path` too, from where it was read to before."""
        if path in self._files:
            self._files[path].users += 1
        elif path:
            self._files[path] = FollowedFile(path, sink, self._offsets.get(path, 0))

    def release(self, path: str) -> None:
        """One task less writes to the file: the last one takes it to its end."""
        file = self._files.get(path)
        if file is None:
            return
        file.users -= 1
        if not file.users:
            file.finish()
            self._offsets[path] = file.offset
            del self._files[path]

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
            file.finish()
        self._files.clear()

"""Output files of tasks, read while they grow."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import time
from collections.abc import Callable
from typing import Protocol

from iriai.client.transport import ConnectionLost
from iriai.wire.requests import OutputPiece


class NotAFile(OSError):
    """There is something else of that name, from which there is nothing to read."""


def open_output(path: str, user: str = "") -> int:
    """A descriptor for the output file at `path`, of a task of `user`; empty: one's own.

    What has the name of an output file is the user's to choose, and to change at any time: a pipe,
    on which an opening waits for ever, a device, which an opening may set off, or a link to a file
    of another user's. So it is looked at before it is opened, and opened only where it is a file,
    and that of the user whose task it is where that is not the one who reads.

    Raises:
        FileNotFoundError: there is nothing of that name yet.
        NotAFile: there is a pipe, a device or the like.
        PermissionError: it is a file of another user than the task's.
        OSError: it cannot be opened.
    """
    found_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        found = os.fstat(found_fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile(errno.EINVAL, "it is not a file, but a pipe, a device or a directory")
        _check_owner(found, user)
        return os.open(f"/proc/self/fd/{found_fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(found_fd)


def _check_owner(found: os.stat_result, user: str) -> None:
    """Raise PermissionError where a user may have led us to a file of another user's."""
    if not user:
        return
    try:
        uid = pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise PermissionError(errno.EPERM, f"user {user} does not exist here") from None
    if uid not in (os.geteuid(), found.st_uid):
        raise PermissionError(errno.EPERM, f"it is not a file of {user}, who owns the task")


READ_BYTES = 1 << 16
"""One read: enough for speed, little enough that two streams take turns."""
PAUSE_MIN_S = 0.001
"""After something new was read: more is likely at once."""
PAUSE_MAX_S = 0.05
"""When nothing new comes: not noticed by people, and next to no work."""

ASK_S = 0.1
"""Between two questions for output that comes from another machine, when nothing is new."""

Sink = Callable[[bytes], None]
ReadPiece = Callable[[int], OutputPiece]
"""What follows so many bytes."""
OnProblem = Callable[[str], None]


class FollowedFile:
    """A file and how far it was read. It need not exist yet."""

    def __init__(self, path: str, sink: Sink, offset: int = 0, user: str = "") -> None:
        """`user` is whose task writes it; see `open_output`."""
        self.offset = offset
        """How many bytes were handed on."""
        self.users = 1
        """How many tasks write to it."""
        self._path = path
        self._user = user
        self._sink = sink
        self._descriptor: int | None = None
        self._is_none = False
        """Whether there is something else of that name."""

    def advance(self) -> bool:
        """Hand what is new to the sink, at most `READ_BYTES`; whether there was something.

        Raises:
            OSError: the file is there and cannot be read.
        """
        if self._is_none:
            return False
        if self._descriptor is None:
            try:
                self._descriptor = open_output(self._path, self._user)
            except FileNotFoundError:
                return False
            except NotAFile:
                self._is_none = True
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


class Followed(Protocol):
    """Output of a task, with the part that was copied already."""

    offset: int
    users: int

    def advance(self) -> bool:
        """Hand on something new; whether there was any."""

    def finish(self) -> None:
        """Hand on everything up to the end."""


class FetchedOutput:
    """Output of a task on another machine, as its home has fetched it."""

    def __init__(self, read: ReadPiece, sink: Sink, on_problem: OnProblem, offset: int = 0) -> None:
        """`read` asks the home for what follows an offset; `on_problem` is told why no more."""
        self.offset = offset
        self.users = 1
        self._on_problem = on_problem
        self._read = read
        self._sink = sink
        self._next_s = 0.0

    def advance(self) -> bool:
        """Hand on what is new; the home is asked ten times a second, or while there is more."""
        if time.monotonic() < self._next_s:
            return False
        try:
            return self._write_piece(self._read(self.offset))
        except ConnectionLost:
            return False  # whoever waits for the job notices too

    def finish(self) -> None:
        """Hand on everything up to the end, as it comes; raises `ConnectionLost`."""
        while True:
            piece = self._read(self.offset)
            if not self._write_piece(piece):
                if piece.is_complete:
                    if piece.problem:
                        self._on_problem(piece.problem)
                    return
                time.sleep(ASK_S)

    def _write_piece(self, piece: OutputPiece) -> bool:
        self.offset += len(piece.content)
        if piece.content:
            self._sink(piece.content)
        else:
            self._next_s = time.monotonic() + ASK_S
        return bool(piece.content)


class FollowedFiles:
    """Several files that are read in turns, and how long to pause between.

    Tasks may share a file: what is in it is handed on once.
    """

    def __init__(self) -> None:
        self._files: dict[str, Followed] = {}
        self._offsets: dict[str, int] = {}
        """Of files that were released: how far they were read."""
        self.pause_s = PAUSE_MIN_S
        """How long nothing need be read: short after something new, longer and longer after."""

    def add(self, path: str, sink: Sink, user: str = "") -> None:
        """Follow the file at `path` too, of a task of `user`, from where it was read to before."""
        if path in self._files:
            self._files[path].users += 1
        elif path:
            self._files[path] = FollowedFile(path, sink, self._offsets.get(path, 0), user)

    def fetch(self, path: str, read: ReadPiece, sink: Sink, on_problem: OnProblem) -> None:
        """Follow what is not at `path` on this host, but is brought from elsewhere."""
        if path in self._files:
            self._files[path].users += 1
        elif path:
            self._files[path] = FetchedOutput(read, sink, on_problem, self._offsets.get(path, 0))

    def release(self, path: str) -> None:
        """One task less writes to the file: the last one takes it to its end.

        Raises `ConnectionLost` where it is fetched and its home went away: then nothing is changed,
        but for what was handed on, and it is to be released again when the home is back.
        """
        file = self._files.get(path)
        if file is None:
            return
        if file.users > 1:
            file.users -= 1
            return
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
        """Hand on everything up to the end of each file, and close them.

        Raises `ConnectionLost` as `release` does; then it is to be called again.
        """
        while self.advance():
            pass
        for file in self._files.values():
            file.finish()
        self._files.clear()

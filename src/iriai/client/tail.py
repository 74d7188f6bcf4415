"""Output files of tasks, read while they grow."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import time
from collections.abc import Callable
from typing import Protocol

from iriai.client.rpc_channel import ConnectionLost
from iriai.wire.requests import OutputPiece


class NotAFile(OSError):
    """The path names a pipe, a device or a directory, not a regular file."""


def open_output(path: str, user: str = "") -> int:
    """Open the output file at `path` of a task of `user` (empty: the caller); return a descriptor.

    The user may replace an output file at any time: by a pipe, on which open(2) would block, by a
    device, on which it may have effects, or by a link to a file of another user. So the file is
    examined before it is opened, and opened only if it is a regular file that belongs to `user` or
    to the caller.

    Raises:
        FileNotFoundError: the file does not exist yet.
        NotAFile: it is a pipe, a device or the like.
        PermissionError: it belongs to a user other than the task's.
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
    """Raise PermissionError if the file may belong to another user than the task's."""
    if not user:
        return
    try:
        uid = pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise PermissionError(errno.EPERM, f"user {user} does not exist here") from None
    if uid not in (os.geteuid(), found.st_uid):
        raise PermissionError(errno.EPERM, f"it is not a file of {user}, who owns the task")


READ_BYTES = 1 << 16
"""Bytes of one read: large enough for speed, small enough that streams alternate."""
PAUSE_MIN_S = 0.001
"""Pause after new data was read, when more is likely."""
PAUSE_MAX_S = 0.05
"""Longest pause without new data: not noticeable, and cheap."""

ASK_S = 1.0
"""How long the home waits for the rest of output from another machine, before it is asked again."""

Sink = Callable[[bytes], None]
OnProblem = Callable[[str], None]


class FollowedFile:
    """A file and the position up to which it was read. It need not exist yet."""

    def __init__(self, path: str, sink: Sink, offset: int = 0, user: str = "") -> None:
        """`user` is the user of the task that writes it; see `open_output`."""
        self.offset = offset
        """Number of bytes that were passed to the sink."""
        self.users = 1
        """Number of tasks that write to it."""
        self._path = path
        self._user = user
        self._sink = sink
        self._descriptor: int | None = None
        self._is_none = False
        """Whether the path is not a regular file, and is ignored."""

    def advance(self) -> bool:
        """Pass new data, at most `READ_BYTES`, to the sink; return whether there was any.

        Raises:
            OSError: the file exists and cannot be read.
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

    def catch_up(self) -> None:
        """Pass all that is there now to the sink."""
        while self.advance():
            pass

    def finish(self) -> None:
        """Pass everything up to the end to the sink, and close the file."""
        self.catch_up()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Followed(Protocol):
    """Output of a task that is being copied."""

    offset: int
    users: int

    def advance(self) -> bool:
        """Copy new data; return whether there was any."""

    def catch_up(self) -> None:
        """Copy all that is there now."""

    def finish(self) -> None:
        """Copy everything up to the end."""


class KeptOutput(Protocol):
    """Returns output that follows an offset."""

    def poll(self, offset: int) -> OutputPiece | None:
        """Return what has come; None if nothing has."""

    def read(self, offset: int, wait_s: float = 0.0) -> OutputPiece:
        """Return what there is, at once or after `wait_s`."""


class FetchedOutput:
    """Output of a task that its home keeps, and answers for."""

    def __init__(
        self, kept: KeptOutput, sink: Sink, on_problem: OnProblem, offset: int = 0
    ) -> None:
        """`on_problem` receives the reason if the rest is lost."""
        self.offset = offset
        self.users = 1
        self._on_problem = on_problem
        self._kept = kept
        self._sink = sink
        self._is_at_end = False
        self._next_s = 0.0

    def advance(self) -> bool:
        """Copy what has come."""
        if self._is_at_end or time.monotonic() < self._next_s:
            return False
        try:
            piece = self._kept.poll(self.offset)
        except ConnectionLost:
            return False  # the wait for the job detects this too
        if piece is None:
            return False
        if not piece.content:  # it waited for long, or too many wait
            self._next_s = time.monotonic() + PAUSE_MAX_S
        return self._write_piece(piece)

    def catch_up(self) -> None:
        """Copy what there is now; raise `ConnectionLost`."""
        while self._write_piece(self._kept.read(self.offset)):
            pass

    def finish(self) -> None:
        """Copy everything up to the end as it arrives; raise `ConnectionLost`."""
        while True:
            piece = self._kept.read(self.offset)
            while not (piece.content or piece.is_complete):
                piece = self._kept.read(self.offset, ASK_S)
            if not self._write_piece(piece):
                if piece.problem:
                    self._on_problem(piece.problem)
                return

    def _write_piece(self, piece: OutputPiece) -> bool:
        self.offset += len(piece.content)
        self._is_at_end = piece.is_complete
        if piece.content:
            self._sink(piece.content)
        return bool(piece.content)


class FollowedFiles:
    """Several files that are read in turns, with the pause between reads.

    Tasks may share a file; its content is copied once.
    """

    def __init__(self) -> None:
        self._files: dict[str, Followed] = {}
        self._offsets: dict[str, int] = {}
        """Positions up to which released files were read."""
        self.pause_s = PAUSE_MIN_S
        """Pause until the next read: short after new data, then longer and longer."""

    def add(self, path: str, sink: Sink, user: str = "") -> None:
        """Follow also the file at `path` of a task of `user`, from its last position."""
        if path in self._files:
            self._files[path].users += 1
        elif path:
            self._files[path] = FollowedFile(path, sink, self._offsets.get(path, 0), user)

    def fetch(self, path: str, kept: KeptOutput, sink: Sink, on_problem: OnProblem) -> None:
        """Follow also output that the home keeps; `path` is its place, for which it is one."""
        if path in self._files:
            self._files[path].users += 1
        elif path:
            self._files[path] = FetchedOutput(kept, sink, on_problem, self._offsets.get(path, 0))

    def release(self, path: str) -> None:
        """Count one writer less of the file at `path`; after the last one, copy it to its end.

        Raises `ConnectionLost` if it is fetched and its home goes offline. The file then remains
        followed, and `release` can be called again when the home is online.
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
        """Copy new data of each file; return whether there was any."""
        moved = False
        for file in self._files.values():
            moved |= file.advance()
        self.pause_s = PAUSE_MIN_S if moved else min(PAUSE_MAX_S, self.pause_s * 2)
        return moved

    def catch_up(self) -> None:
        """Copy what each file has now; raises `ConnectionLost` as `release` does."""
        for file in self._files.values():
            file.catch_up()

    def finish(self) -> None:
        """Copy each file to its end, and close it.

        Raises `ConnectionLost` as `release` does, and can then be called again.
        """
        while self.advance():
            pass
        for file in self._files.values():
            file.finish()
        self._files.clear()

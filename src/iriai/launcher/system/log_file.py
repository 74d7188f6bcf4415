"""A log that may be moved away while it is written.

Launcher and daemon write to descriptors that another process opened for them, and so do programs
that they start. When the file of that name is another one, these descriptors are made to lead
there. Lines written in the second before that are in the file that was moved, so nothing is lost.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress

from iriai.model.units import line_of, printable

LOOK_S = 1.0
"""The shortest time between two checks of the file."""
MODE = 0o640
"""A log may name users and their commands."""
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class FollowingHandler(logging.StreamHandler):  # type: ignore[type-arg]  # it is not generic at run time
    """Writes to standard error, and redirects it when the file `path` was moved."""

    def __init__(self, path: str) -> None:
        super().__init__(sys.stderr)
        self._path = path
        self._look_at_s = 0.0
        self._is_ours = _is_same(path)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self.follow()
        super().emit(record)

    def follow(self, *, now: bool = False) -> None:
        """Reopen the file if it was moved; checked at most every LOOK_S, unless `now`."""
        moment_s = time.monotonic()
        if not self._is_ours or (moment_s < self._look_at_s and not now):
            return
        self._look_at_s = moment_s + LOOK_S
        if not _is_same(self._path):
            reopen(self._path)


class LineFormatter(logging.Formatter):
    """Formats each record as one line, whatever names and texts of others it contains.

    Further lines are ours alone, the traceback of an error; they are indented, so that no text in
    them passes for a record.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Return the line."""
        record.message = line_of(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback after it."""
        first, *further = super().format(record).split("\n")
        return "\n".join([first, *(f"  {printable(line)}" for line in further)])


def reopen(path: str) -> None:
    """Redirect standard output and error to the file `path`, made if it is missing.

    If that is not permitted they stay as they are.
    """
    with suppress(OSError):
        try:
            fd = os.open(path, _FLAGS)
        except FileNotFoundError:
            fd = os.open(path, _FLAGS | os.O_CREAT, MODE)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        os.close(fd)


def _is_same(path: str) -> bool:
    """Return whether standard error is the file of this name."""
    try:
        there, here = os.stat(path, follow_symlinks=False), os.fstat(2)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def set_up_logging(path: str, part: str) -> FollowingHandler:
    """Write log records of this process to standard error, a line each, with their time."""
    handler = FollowingHandler(path)
    handler.setFormatter(LineFormatter(f"%(asctime)s {part} %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return handler

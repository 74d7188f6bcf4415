"""Output of the tasks of `run`: two files each in `spool` of the state directory.

They belong to the daemon alone; users read them through it. The machine where a task runs stores
its output there, and the home a copy of it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from iriai.model.ids import AttemptId
from iriai.model.job import INPUT, OUTPUTS

_NAME = re.compile(
    r"([a-z][a-z0-9-]{0,30})-([0-9]{1,18})\.([0-9]{1,9})-([0-9]{1,18})"
    r"(?:\.([0-9]{1,9}))?(?:\+([0-9]{1,15}))?\.(?:in|out|err)"
)
_FLAGS = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Spool:
    """The directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def path(self, attempt: AttemptId, kind: str) -> str:
        """Return the path of a stream's file."""
        return f"{self.directory}/{str(attempt).replace('#', '-')}.{kind}"

    def open(self, attempt: AttemptId, kind: str) -> int:
        """Open a stream's file for reading and writing; make it where it is missing.

        Raises OSError.
        """
        return os.open(self.path(attempt, kind), os.O_RDWR | _FLAGS, 0o600)

    def read(self, attempt: AttemptId, kind: str, offset: int, bytes_max: int) -> bytes:
        """Return what is stored from `offset` on, which may come from any peer; empty if nothing.

        Raises OSError: it cannot be read.
        """
        try:
            descriptor = os.open(self.path(attempt, kind), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            if not 0 <= offset < os.fstat(descriptor).st_size:
                return b""  # the kernel refuses some numbers as a position in a file
            return os.pread(descriptor, bytes_max, offset)
        finally:
            os.close(descriptor)

    def read_here(self, attempt: AttemptId, kind: str, offset: int, bytes_max: int) -> bytes:
        """As `read`, but empty where it cannot be read: its home is told of an end without it."""
        with suppress(OSError):
            return self.read(attempt, kind, offset, bytes_max)
        return b""

    def size_bytes(self, attempt: AttemptId, kind: str) -> int:
        """Return how much is stored; 0 if there is nothing."""
        try:
            return os.stat(self.path(attempt, kind)).st_size  # noqa: PTH116
        except OSError:  # an unreadable file is reported when it is read
            return 0

    def append(self, attempt: AttemptId, kind: str, content: bytes) -> int:
        """Append to a stream; return how many bytes were stored. Raises OSError."""
        flags = os.O_WRONLY | os.O_APPEND | _FLAGS
        descriptor = os.open(self.path(attempt, kind), flags, 0o600)
        try:
            return os.write(descriptor, content)
        finally:
            os.close(descriptor)

    def delete(self, attempt: AttemptId) -> None:
        """Delete the streams of an attempt, as far as they are there."""
        for kind in (INPUT, *OUTPUTS):
            with suppress(OSError):
                os.unlink(self.path(attempt, kind))  # noqa: PTH108


def attempt_of(name: str) -> AttemptId | None:
    """Return whose stream the file `name` has; None: it is not such a file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    home, *numbers = match.groups(default="0")
    return AttemptId(home, *map(int, numbers))

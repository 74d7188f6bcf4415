"""Reads one piece of a task's output from the spool."""

from __future__ import annotations

import errno
import os
import stat


def read_piece(path: str, offset: int, bytes_max: int) -> bytes:
    """Return the bytes after `offset`, which may come from any peer; empty if there are none.

    Raises OSError: there is no such file, or its user made it unreadable.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        if not 0 <= offset < found.st_size:
            return b""  # the kernel refuses some numbers as a position in a file
        return os.pread(descriptor, bytes_max, offset)
    finally:
        os.close(descriptor)

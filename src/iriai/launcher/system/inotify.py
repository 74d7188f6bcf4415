"""The kernel's notices of what happens to files (inotify), which Python's library lacks."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

ACCESSED = 0x1
ATTRIBUTES = 0x4
MOVED_HERE = 0x80
MADE = 0x100
REMOVED_HERE = 0x200
REMOVED = 0x400
OVERFLOWED = 0x4000
"""Notices were lost."""
FORGOTTEN = 0x8000
"""The file is gone, and its watch with it."""
READ_BYTES = 1 << 16
_HEADER = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class FileNotice(NamedTuple):
    """One notice."""

    watch: int
    """As `watch` returned it; -1 of all."""
    mask: int


class Inotify:
    """One queue of notices."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.fd = _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")

    def watch(self, path: str, mask: int) -> int:
        """Watch a file for these alone from now on; return the number of the watch.

        One that is watched already keeps its number. Raises OSError.
        """
        result = _libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask))
        return _check(result, path)

    def read(self) -> list[FileNotice]:
        """Return what came, as much as is read at once."""
        try:
            content = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return []
        notices, begin = list[FileNotice](), 0
        while begin < len(content):
            watch, mask, _, name_bytes = _HEADER.unpack_from(content, begin)
            notices.append(FileNotice(watch, mask))
            begin += _HEADER.size + name_bytes
        return notices

    def close(self) -> None:
        """End all watches."""
        os.close(self.fd)


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return int(result)

"""How much disk a directory takes, by a walk through it in small parts.

What lies there is a user's, who may change it meanwhile. So it is gone through by descriptors: no
symbolic link is followed and no mount entered, and what a rename puts under a descriptor belongs
to the same user. Each walk is bounded: in files, in depth, and in the files with several names that
are remembered.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import suppress

BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the file system's own is."""
PART_ENTRIES = 1000
"""Entries that are looked at in one part of a walk: some milliseconds."""
FILES_MAX = 10_000_000
"""More files are not counted: a walk would take minutes, and its task is ended."""
DEPTH_MAX = 200
"""Deeper directories are not entered, since each level takes two descriptors; the task is ended."""
LINKS_MAX = 1_000_000
"""Files with several names that are remembered, so that each counts once; more count by name."""

_OPENAT2 = 437
_RESOLVE_NO_XDEV = 1
_RESOLVE_NO_SYMLINKS = 4
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EACCES, errno.EPERM)
"""It was removed or replaced meanwhile, is a mount, or is closed to its own user's launcher."""

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Uncountable(Exception):
    """There is more than is counted; the text says what."""


class DiskWalk:
    """One walk. It holds up to 2 `DEPTH_MAX` descriptors until it is closed."""

    def __init__(self, directory_fd: int) -> None:
        """`directory_fd` may be closed afterwards. Raises OSError."""
        self.used_bytes = 0
        """So far; all of it once the walk is through."""
        self.files = 0
        self._links: set[int] = set()
        self._levels: list[tuple[int, Iterator[os.DirEntry[str]]]] = []
        fd = os.open(".", _FLAGS, dir_fd=directory_fd)
        self._enter(fd)

    def go_on(self) -> bool:
        """Look at `PART_ENTRIES` more entries; return whether the walk is through.

        Raises `Uncountable` if there is more than is counted.
        """
        for _ in range(PART_ENTRIES):
            if not self._levels:
                return True
            fd, entries = self._levels[-1]
            try:
                entry = next(entries, None)
            except OSError:  # it cannot be read to its end
                entry = None
            if entry is None:
                self._leave()
            else:
                self._look(fd, entry)
        return not self._levels

    def close(self) -> None:
        """Close what is open. May be called again."""
        while self._levels:
            self._leave()

    def _look(self, fd: int, entry: os.DirEntry[str]) -> None:
        self.files += 1
        if self.files > FILES_MAX:
            raise Uncountable(f"there are more than {FILES_MAX} files")
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            if entry.is_dir(follow_symlinks=False):
                self._descend(fd, entry.name)
                return
            found = entry.stat(follow_symlinks=False)
            if found.st_nlink > 1:
                if found.st_ino in self._links:
                    return
                if len(self._links) < LINKS_MAX:
                    self._links.add(found.st_ino)
            self.used_bytes += found.st_blocks * BLOCK_BYTES

    def _descend(self, fd: int, name: str) -> None:
        if len(self._levels) >= DEPTH_MAX:
            raise Uncountable(f"directories are nested deeper than {DEPTH_MAX}")
        try:
            below = _open_below(fd, name)
        except OSError as error:
            if error.errno in _GONE:
                return
            raise
        self._enter(below)

    def _enter(self, fd: int) -> None:
        try:
            self.used_bytes += os.fstat(fd).st_blocks * BLOCK_BYTES
            self._levels.append((fd, os.scandir(fd)))
        except OSError:
            os.close(fd)
            raise

    def _leave(self) -> None:
        fd, entries = self._levels.pop()
        entries.close()  # type: ignore[attr-defined]
        os.close(fd)


def _open_below(fd: int, name: str) -> int:
    """Open the directory `name` of `fd`, if nothing is mounted there. Raises OSError."""
    how = _How(_FLAGS, 0, _RESOLVE_NO_XDEV | _RESOLVE_NO_SYMLINKS)
    found = int(
        _libc.syscall(_OPENAT2, fd, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how))
    )
    if found >= 0:
        return found
    code = ctypes.get_errno()
    if code != errno.ENOSYS:
        raise OSError(code, os.strerror(code))
    below = os.open(name, _FLAGS, dir_fd=fd)  # before Linux 5.6
    if os.fstat(below).st_dev != os.fstat(fd).st_dev:
        os.close(below)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return below

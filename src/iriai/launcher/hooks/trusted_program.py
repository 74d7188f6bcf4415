"""Checks whether a program may run with the launcher's rights: no other user can replace it.

Each directory on the way is looked at, from the root of the file system, through descriptors: it
belongs to root (or the launcher's user), and neither its group nor others can write it. A sticky
bit does not make up for that: it keeps what is there, not what may be made there while nothing is.
A symbolic link in such a directory was made by who may write it, and is followed. So nobody else
can change the way between this check and the start, nor afterwards.
"""

from __future__ import annotations

import errno
import os
import stat

LINKS_MAX = 40
"""As many symbolic links as the kernel follows."""


class NotTrusted(OSError):
    """Other users could change the program."""


_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def check_program(path: str, owner_uid: int) -> None:
    """Raise `NotTrusted` if users other than root and `owner_uid` could replace the program.

    Raises OSError if it is no program, or cannot be examined.
    """
    if not path.startswith("/"):
        raise OSError(errno.EINVAL, "its path does not begin with /")
    fd = _walk(path, owner_uid)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EACCES, "it is not a file")
        _check_owner(found, owner_uid, "other users can write it")
    finally:
        os.close(fd)


def _walk(path: str, owner_uid: int) -> int:
    """Open the target of `path`, checking every step; return its descriptor. Raises OSError."""
    pending = _steps(path)
    links = 0
    way = [os.open("/", _LOOK)]
    """Descriptors of the directories from the root to the current one."""
    try:
        while pending:
            _check_directory(way[-1], owner_uid)
            name = pending.pop()
            if name == "..":
                if len(way) > 1:
                    os.close(way.pop())
                continue
            fd = os.open(name, _LOOK, dir_fd=way[-1])
            if not stat.S_ISLNK(os.fstat(fd).st_mode):
                way.append(fd)
                continue
            target = os.readlink("", dir_fd=fd)
            os.close(fd)
            links += 1
            if links > LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if target.startswith("/"):
                while len(way) > 1:
                    os.close(way.pop())
            pending += _steps(target)
        return os.dup(way[-1])
    finally:
        for fd in way:
            os.close(fd)


def _steps(path: str) -> list[str]:
    """Return the names in `path`, the last first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _check_directory(fd: int, owner_uid: int) -> None:
    found = os.fstat(fd)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    place = os.readlink(f"/proc/self/fd/{fd}")
    _check_owner(found, owner_uid, f"other users can write {place}, on the way to it")


def _check_owner(found: os.stat_result, owner_uid: int, words: str) -> None:
    if found.st_uid not in (0, owner_uid) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotTrusted(errno.EPERM, words)

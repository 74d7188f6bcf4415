"""Files that the launcher writes into the private directory of a task, before it begins."""

from __future__ import annotations

import os

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_private(directory_fd: int, name: str, content: bytes, mode: int, uid: int) -> None:
    """Write a file of the user's into a directory that the launcher made; no path is followed.

    Raises OSError if something of that name exists, or the disk is full.
    """
    fd = os.open(name, _FLAGS, mode, dir_fd=directory_fd)
    with os.fdopen(fd, "wb") as file:
        if os.geteuid() == 0:
            os.fchown(fd, uid, -1)
        file.write(content)

"""Output files of tasks, opened by whoever reads them: the user, or an operator with other rights.

What has the name of an output file is the user's to choose, and to change at any time: a pipe, on
which an opening waits for ever, a device, which an opening may set off, or a link to a file of
somebody else's. So it is looked at before it is opened, and opened only where it is a file, and
that of the user whose task it is where that is not the one who reads.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat


class NotAFile(OSError):
    """There is something else of that name, from which there is nothing to read."""


def open_output(path: str, user: str = "") -> int:
    """A descriptor for the output file at `path`, of a task of `user`; empty: one's own.

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
    """Raise PermissionError where a user may have led us to a file of somebody else's."""
    if not user:
        return
    try:
        uid = pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise PermissionError(errno.EPERM, f"there is no user {user} here") from None
    if uid not in (os.geteuid(), found.st_uid):
        raise PermissionError(errno.EPERM, f"it is not a file of {user}, whose task it is")

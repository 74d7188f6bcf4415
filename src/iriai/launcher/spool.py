"""Output of tasks that somebody follows: two files each in `spool` of the state directory.

The launcher makes them for the task's user, who alone reads them; they are removed by the daemon,
which owns the directory.
"""

from __future__ import annotations

import os

from iriai.launcher.users import Login
from iriai.model.ids import AttemptId


def spool_name(attempt: AttemptId, kind: str) -> str:
    """The file's name: kind `out` is standard output, `err` standard error."""
    return f"{str(attempt).replace('#', '-')}.{kind}"


class Spool:
    """The directory."""

    def __init__(self, directory_fd: int) -> None:
        self._directory_fd = directory_fd
        self._is_root = os.geteuid() == 0

    def create(self, attempt: AttemptId, kind: str, login: Login) -> int:
        """A new file for appending, owned by the user; returns its descriptor."""
        name = spool_name(attempt, kind)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, 0o600, dir_fd=self._directory_fd)
        except FileExistsError:  # by a launcher that was killed before the attempt began
            os.unlink(name, dir_fd=self._directory_fd)
            fd = os.open(name, flags, 0o600, dir_fd=self._directory_fd)
        if self._is_root:
            os.fchown(fd, login.uid, login.gid)
        return fd

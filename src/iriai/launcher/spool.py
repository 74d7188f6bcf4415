"""Output of tasks that somebody follows: two files each in `spool` of the state directory.

The launcher makes them for the task's user. The daemon, whose group they have, reads them too: it
tells a home on another machine what its task prints.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat

from iriai.launcher.users import Login
from iriai.model.ids import AttemptId


def spool_name(attempt: AttemptId, kind: str) -> str:
    """The file's name: kind `out` is standard output, `err` standard error."""
    return f"{str(attempt).replace('#', '-')}.{kind}"


class Spool:
    """The directory, or that of a front end on this host whose tasks run here."""

    def __init__(self, directory_fd: int, daemon_uid: int) -> None:
        self._directory_fd = directory_fd
        self._daemon_uid = daemon_uid
        self._is_root = os.geteuid() == 0
        self._daemon_gid = _group_of(daemon_uid)

    def create(self, attempt: AttemptId, kind: str, login: Login, directory: str = "") -> int:
        """A new file for appending, owned by the user; returns its descriptor.

        In `directory`, where one is named; it has to be the daemon's own, writable by nobody else,
        so that a daemon has nothing made where it could not make it itself. Raises OSError.
        """
        if not directory:
            return self._create(self._directory_fd, spool_name(attempt, kind), login)
        directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(directory_fd)
            if found.st_uid != self._daemon_uid or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(
                    errno.EPERM, f"the spool {directory} is not the daemon's alone"
                )
            return self._create(directory_fd, spool_name(attempt, kind), login)
        finally:
            os.close(directory_fd)

    def _create(self, directory_fd: int, name: str, login: Login) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, 0o600, dir_fd=directory_fd)
        except FileExistsError:  # by a launcher that was killed before the attempt began
            os.unlink(name, dir_fd=directory_fd)
            fd = os.open(name, flags, 0o600, dir_fd=directory_fd)
        if self._is_root:
            os.fchown(fd, login.uid, self._daemon_gid)
            os.fchmod(fd, 0o640)
        return fd


def _group_of(uid: int) -> int:
    """The group that the daemon runs with; root's, whom no mode keeps out, where it has no name."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return 0

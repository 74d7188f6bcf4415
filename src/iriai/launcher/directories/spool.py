"""Output of followed tasks: two files each in `spool` of the state directory.

They belong to the daemon, which reads them too: it sends a home on another machine what its task
prints. The task's user may write them while the task runs, and read them as long as they exist, by
an access list. So nobody can replace or keep them, and they are bounded: the launcher ends a task
that prints more than `SPOOL_BYTES_MAX` into one.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from iriai.launcher.directories.access_list import READ, WRITE, give_access
from iriai.model.ids import AttemptId
from iriai.system.passwd_cache import Login, find_login

SPOOL_BYTES_MAX = 1 << 30
"""Of one stream: nobody reads more, and a task can write files of its user's."""


def spool_name(attempt: AttemptId, kind: str) -> str:
    """Return the file's name; `kind` is `out` for standard output, `err` for standard error."""
    return f"{str(attempt).replace('#', '-')}.{kind}"


class Spool:
    """The directory, or that of a front end on this host whose tasks run here."""

    def __init__(self, directory_fd: int, daemon_uid: int) -> None:
        self._directory_fd = directory_fd
        self._daemon_uid = daemon_uid
        self._is_root = os.geteuid() == 0
        self._daemon_gid = _group_of(daemon_uid)
        self._open: dict[AttemptId, dict[int, Login]] = {}
        """The files of attempts that are not over, each with its user."""

    def create(self, attempt: AttemptId, kind: str, login: Login, directory: str = "") -> int:
        """Make a file for appending, for the user to write and read; return its descriptor.

        `close` closes it. `directory`, if given, has to be the daemon's own, writable by nobody
        else, so that a daemon cannot have files made where it could not make them itself. Raises
        OSError.
        """
        fd = self._create_in(directory, spool_name(attempt, kind), login)
        self._open.setdefault(attempt, {})[fd] = login
        return fd

    def size_bytes(self, attempt: AttemptId) -> int:
        """Return the size of the larger file of an attempt that is not over."""
        return max((os.fstat(fd).st_size for fd in self._open.get(attempt, ())), default=0)

    def close(self, attempt: AttemptId) -> None:
        """Close the files of an attempt that is over; from now on its user can only read."""
        for fd, login in self._open.pop(attempt, {}).items():
            if self._is_root:
                with suppress(OSError):
                    give_access(fd, login.uid, READ)
            os.close(fd)

    def _create_in(self, directory: str, name: str, login: Login) -> int:
        if not directory:
            return self._create(self._directory_fd, name, login)
        directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(directory_fd)
            if found.st_uid != self._daemon_uid or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(
                    errno.EPERM, f"the spool {directory} must belong to the daemon alone"
                )
            return self._create(directory_fd, name, login)
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
            self._give(fd, login)
        return fd

    def _give(self, fd: int, login: Login) -> None:
        """Give it to the daemon, writable by the user: programs open /dev/stdout by name."""
        os.fchown(fd, self._daemon_uid, self._daemon_gid)
        if not give_access(fd, login.uid, READ | WRITE):
            os.fchown(fd, login.uid, self._daemon_gid)
            os.fchmod(fd, 0o640)


def _group_of(uid: int) -> int:
    """Return the group that the daemon runs with; root's if the user has no name."""
    login = find_login(uid)
    return login.gid if login else 0

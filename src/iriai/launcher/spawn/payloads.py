"""Scripts and standard input as files, for as long as a task uses them.

They lie in `launcher/run` of the state directory, named by their content, so that the tasks of an
array share one. A script is the launcher's, and its user alone may read and execute it, by an
access list: who owned it could write it, and fill the disk. Standard input is the launcher's alone,
and the task gets an open descriptor.
"""

from __future__ import annotations

import os

from iriai.launcher.system.digest import digest_of
from iriai.system.access_list import EXECUTE, READ, give_access

_NAME_BYTES = 12
"""Length of the digest in a name; a user can only collide with their own scripts."""


class PayloadFiles:
    """The files in one directory, each with the number of tasks that use it."""

    def __init__(self, directory: str, directory_fd: int) -> None:
        self._directory = directory
        self._directory_fd = directory_fd
        self._users: dict[str, int] = {}
        for name in os.listdir(directory_fd):  # left over from a launcher that was killed
            os.unlink(name, dir_fd=directory_fd)

    def path(self, name: str) -> str:
        """Return the path of the file `name`, to be executed."""
        return f"{self._directory}/{name}"

    def open(self, name: str) -> int:
        """Open the file `name`; return a new descriptor at its begin."""
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory_fd)

    def keep_script(self, content: bytes, uid: int, gid: int) -> str:
        """Count one more user of this script; return the name of its file."""
        name = f"script-{uid}-{digest_of(content, size_bytes=_NAME_BYTES).hex()}"
        return self._keep(name, content, 0o500, uid, gid)

    def keep_input(self, content: bytes) -> str:
        """Count one more user of this standard input; return the name of its file."""
        name = f"input-{digest_of(content, size_bytes=_NAME_BYTES).hex()}"
        return self._keep(name, content, 0o400, -1, -1)

    def release(self, name: str) -> None:
        """Count one user of `name` less; remove the file with the last."""
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            os.unlink(name, dir_fd=self._directory_fd)

    def _keep(self, name: str, content: bytes, mode: int, uid: int, gid: int) -> str:
        if name not in self._users:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(name, flags, 0o600, dir_fd=self._directory_fd)
            try:
                with os.fdopen(fd, "wb", closefd=False) as file:
                    file.write(content)
                os.fchmod(fd, mode)
                if uid >= 0 and os.geteuid() == 0 and not give_access(fd, uid, READ | EXECUTE):
                    os.fchown(fd, uid, gid)
            except OSError:
                os.unlink(name, dir_fd=self._directory_fd)
                raise
            finally:
                os.close(fd)
        self._users[name] = self._users.get(name, 0) + 1
        return name

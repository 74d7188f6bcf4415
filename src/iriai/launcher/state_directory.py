"""The launcher's part of the state directory.

As root the directory is root's, and what the daemon owns lies in directories of its own in it
(`store`, `spool`, `cluster`); where a daemon runs for one user all is that user's. What the
launcher relies on lies in `launcher/`, which it owns and opens once. No name is followed where it
is a symbolic link.
"""

from __future__ import annotations

import os
import stat

from iriai.launcher.contract.machine_config import MachineSettings, read_machine_file
from iriai.launcher.system.digest import digest_of
from iriai.system.lock_file import LockHeld, take_lock

LOCK = "launcher.lock"
PRIVATE = "launcher"
RUN = "run"
SPOOL = "spool"
_NAME_BYTES = 6
"""Of the digest that tells the launchers of one machine apart."""


class StateProblem(Exception):
    """The state directory cannot be used; the text says why and what to do."""


class StateDirectory:
    """The open directories of one launcher."""

    def __init__(self, path: str, daemon_uid: int) -> None:
        """Open it, make what is missing, take the lock. Raises `StateProblem`."""
        self.path = os.path.realpath(path)
        self.name = digest_of(os.fsencode(self.path), size_bytes=_NAME_BYTES).hex()
        """Tells this state directory from others on the machine."""
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StateProblem(f"state directory {self.path}: {error.strerror}") from error
        self._lock_fd = self._lock()
        own = os.geteuid()
        self.private_fd = self._directory(self._fd, PRIVATE, 0o711, own)
        self.run_fd = self._directory(self.private_fd, RUN, 0o711, own)
        self.private_path = f"{self.path}/{PRIVATE}"
        self.run_path = f"{self.private_path}/{RUN}"
        spool_owner = daemon_uid if own == 0 else own
        self._directory(self._fd, SPOOL, 0o700, spool_owner)

    def machine_settings(self) -> MachineSettings:
        """Read the configuration of this machine. Raises `BadMachineFile`."""
        return read_machine_file(self._fd)

    def unreachable_part(self) -> str:
        """Return the first directory above scripts that other users cannot pass, or ""."""
        parts = self.run_path.split("/")
        for count in range(2, len(parts) + 1):
            directory = "/".join(parts[:count])
            if not os.stat(directory).st_mode & stat.S_IXOTH:
                return directory
        return ""

    def _lock(self) -> int:
        try:
            return take_lock(LOCK, self._fd)
        except LockHeld as held:
            raise StateProblem(
                f"another launcher (pid {held.pid or 'unknown'}) already serves {self.path}"
            ) from None
        except OSError as error:
            raise StateProblem(f"{self.path}/{LOCK}: {error.strerror}") from error

    def _directory(self, parent_fd: int, name: str, mode: int, uid: int) -> int:
        """Open the directory `name`, make it if missing; it must belong to `uid`."""
        made = True
        try:
            os.mkdir(name, mode, dir_fd=parent_fd)
        except FileExistsError:
            made = False
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(name, flags, dir_fd=parent_fd)
        except OSError as error:
            raise StateProblem(f"{self.path}: {name}: {error.strerror}") from error
        if made:
            os.fchmod(fd, mode)
            if uid != os.geteuid():
                os.fchown(fd, uid, -1)
        found = os.fstat(fd)
        if found.st_uid != uid or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StateProblem(
                f"{self.path}: {name} must belong to user id {uid} and be writable by no other user"
            )
        return fd

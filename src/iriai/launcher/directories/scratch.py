"""Private directories of tasks: each has its own as TMPDIR, which goes with it.

They lie in `TMP/iriai-NAME`, which belongs to the launcher (TMP is the machine's choice), and have
short names, since programs put sockets into them. A directory that its task left as it was given
(most do) serves the next task of the same user: to make and remove one costs two entries in the
file system's log, more than everything else that starting a short task takes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from iriai.launcher.directories.project_quota import ProjectQuota, ProjectQuotas, try_quotas
from iriai.launcher.directories.removal import Removal, move, remove
from iriai.launcher.directories.stamp import Stamp

log = logging.getLogger(__name__)

TRASH = "removed"
"""The directory in a place that only the launcher can enter."""
PRIVATE = "private"
"""The same for directories that are mounted at another path for a task."""
PLACES = "places"
"""The file in the launcher's private directory that lists the places used so far, a line each."""
IDLE_MAX = 256
"""Directories kept for later tasks; a machine that runs more tasks at once makes some anew."""
OWN_PLACE = "tmp"
"""In the launcher's private directory, if the configured directory cannot be used."""
_PLACE_MODE = 0o711


class NoDirectory(Exception):
    """No private directory can be made at present; the text explains where and why."""


class ScratchSpace(NamedTuple):
    """A task's private directory."""

    path: str
    place: ScratchRoot
    name: str
    fd: int
    """Open, since a mount may hide the name."""
    uid: int
    stamp: Stamp


class ScratchRoot:
    """One directory of private directories, open and locked.

    The lock keeps systemd-tmpfiles, which removes old files, out of it.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self.trash_fd = self._own(TRASH)
        self._private_fd = -1
        self._counter = 0
        self.quotas: ProjectQuotas | None = None
        """None: the file system has none, or that was not tried yet."""
        self.quota_refusal: str | None = None
        """Why it has none; None: that was not tried yet, or it has."""

    def try_quotas(self) -> ProjectQuotas | None:
        """Return the quotas of the file system; None: it has none."""
        if self.quotas is None and self.quota_refusal is None:
            try:
                self.quotas = try_quotas(self.private_fd, self.fresh_name())
            except OSError as error:
                self.quota_refusal = f"no project quota in {self.path}: {error.strerror}"
        return self.quotas

    @property
    def private_fd(self) -> int:
        """The directory PRIVATE, made on first use."""
        if self._private_fd < 0:
            self._private_fd = self._own(PRIVATE)
        return self._private_fd

    @property
    def private_path(self) -> str:
        """The path of `private_fd`."""
        return f"{self.path}/{PRIVATE}"

    def _own(self, name: str) -> int:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self.fd)
        return os.open(name, _DIRECTORY, dir_fd=self.fd)

    def fresh_name(self) -> str:
        """Return a name that this launcher has not used here."""
        self._counter += 1
        return str(self._counter)


class Scratch:
    """Provides private directories, and pools unused ones."""

    def __init__(self, state_path: str, private_fd: int, launcher_name: str) -> None:
        """`state_path` is the launcher's own directory, the fallback for any other place."""
        self._state_path = state_path
        self._private_fd = private_fd
        self._name = f"iriai-{launcher_name}"
        self._is_root = os.geteuid() == 0
        self._removal = Removal()
        self._place: ScratchRoot | None = None
        self._places: list[ScratchRoot] = []
        """All that were opened, to be removed in the end."""
        self._tmp = ""
        self._idle: dict[int, list[ScratchSpace]] = {}
        self._idle_count = 0

    def use(self, tmp: str) -> None:
        """Make directories below `tmp` from now on."""
        if tmp != self._tmp:
            self._drop_idle()
            self._tmp, self._place = tmp, None

    def acquire(self, uid: int, gid: int) -> ScratchSpace:
        """Return an empty directory of the user's. Raises `NoDirectory`."""
        idle = self._idle.get(uid)
        if idle:
            self._idle_count -= 1
            return idle.pop()
        try:
            return self._new(uid, gid)
        except OSError as error:
            where = f"no private directory can be created in {self._tmp}"
            raise NoDirectory(f"{where}: {error.strerror}") from error

    def _new(self, uid: int, gid: int) -> ScratchSpace:
        place = self.place
        name = _make(place, place.fd)
        fd = os.open(name, _DIRECTORY, dir_fd=place.fd)
        if self._is_root:
            os.fchown(fd, uid, gid)
        return ScratchSpace(f"{place.path}/{name}", place, name, fd, uid, Stamp(fd))

    @property
    def place(self) -> ScratchRoot:
        """The current parent of new directories. Raises OSError."""
        return self._place or self._open_place()

    def new_private(self, mode: int) -> tuple[ScratchRoot, str]:
        """Make an empty directory that only the launcher can reach, to be mounted elsewhere.

        Raises OSError.
        """
        place = self.place
        name = _make(place, place.private_fd)
        os.chmod(name, mode, dir_fd=place.private_fd)
        return place, name

    def remove_private(self, place: ScratchRoot, name: str) -> None:
        """Remove a directory from `new_private`, with all its content."""
        self._remove(place, name, place.private_fd)

    def later(self, action: Callable[[], None]) -> None:
        """Run a long action in the thread that removes directories; it may raise OSError."""
        self._removal.call(action)

    def limit(self, directory: ScratchSpace, limit_bytes: int) -> ProjectQuota | None:
        """Limit an empty directory by its file system; None: that has no quotas.

        Raises OSError.
        """
        quotas = directory.place.try_quotas()
        return None if quotas is None else quotas.begin(directory.fd, limit_bytes)

    def limit_no_more(self, directory: ScratchSpace, quota: ProjectQuota) -> None:
        """Release the quota of a directory that is about to be given back."""
        quotas = directory.place.quotas
        if quotas is not None:
            try:
                quotas.end(quota)
            except OSError as error:
                log.warning("the quota of %s stays: %s", directory.path, error.strerror)

    def quota_refusal(self) -> str:
        """Return why directories are not limited by their file system; empty: they are."""
        try:
            self.place.try_quotas()
            return self.place.quota_refusal or ""
        except OSError as error:
            return f"no private directory can be created in {self._tmp}: {error.strerror}"

    def give_back(self, directory: ScratchSpace, begun_s: float) -> None:
        """Pool or remove the directory of a task that is over, with no process left.

        It began at `begun_s` on the steady clock.
        """
        is_wanted = directory.place is self._place and self._idle_count < IDLE_MAX
        if is_wanted and directory.stamp.is_untouched(begun_s):
            self._idle.setdefault(directory.uid, []).append(directory)
            self._idle_count += 1
        else:
            os.close(directory.fd)
            self._remove(directory.place, directory.name)

    def clean(self) -> None:
        """Remove what earlier launchers left, in all places that they used."""
        for path in self._known_places():
            try:
                fd = self._open_own(path)
            except OSError:
                continue
            place = ScratchRoot(path, fd)
            self._places.append(place)
            for name in os.listdir(fd):
                if name != TRASH:
                    self._remove(place, name)
            for name in os.listdir(place.trash_fd):
                self._removal.add(place.trash_fd, name)

    def close(self, timeout_s: float) -> None:
        """Remove what is not in use; a large tree may be left to the next launcher."""
        self._drop_idle()
        if not self._removal.wait(timeout_s):
            log.warning("files that tasks left below %s are not all removed yet", self._tmp)
        for place in self._places:
            for name in (PRIVATE, TRASH):
                with suppress(OSError):  # not empty, or removed already
                    os.rmdir(name, dir_fd=place.fd)
            with suppress(OSError):
                os.rmdir(place.path)

    def _drop_idle(self) -> None:
        for directories in self._idle.values():
            for directory in directories:
                os.close(directory.fd)
                self._remove(directory.place, directory.name)
        self._idle.clear()
        self._idle_count = 0

    def _remove(self, place: ScratchRoot, name: str, parent_fd: int = -1) -> None:
        fd = place.fd if parent_fd < 0 else parent_fd
        try:
            if not remove(fd, name):
                trashed = f"{name}-{os.getpid()}-{place.fresh_name()}"
                move(fd, name, place.trash_fd, trashed)
                self._removal.add(place.trash_fd, trashed)
        except OSError as error:
            log.warning("%s/%s cannot be removed: %s", place.path, name, error.strerror)

    # --- places ----------------------------------------------------------------------------------

    def _open_place(self) -> ScratchRoot:
        """Open the place below the configured directory, else in the launcher's own directory.

        The latter if another user has a directory of that name there.
        """
        path = f"{self._tmp}/{self._name}"
        try:
            fd = self._open_own(path, make=True)
        except PermissionError as error:
            log.warning("%s: private directories are created in %s", error, self._state_path)
            path = f"{self._state_path}/{OWN_PLACE}"
            fd = self._open_own(path, make=True)
        self._remember(path)
        self._place = ScratchRoot(path, fd)
        self._places.append(self._place)
        return self._place

    def _open_own(self, path: str, *, make: bool = False) -> int:
        """Open a directory of this user; raise PermissionError if it is another user's."""
        if make:
            with suppress(FileExistsError):
                os.mkdir(path, _PLACE_MODE)
        try:
            fd = os.open(path, _DIRECTORY)
        except OSError as error:
            if make and os.path.lexists(path):
                raise PermissionError(f"{path} is not a directory of iriai") from error
            raise
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.close(fd)
            raise PermissionError(f"{path} belongs to another user")
        os.fchmod(fd, _PLACE_MODE)
        return fd

    def _known_places(self) -> Iterator[str]:
        try:
            fd = os.open(PLACES, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._private_fd)
        except FileNotFoundError:
            return
        with open(fd, encoding="utf-8", errors="surrogateescape") as file:
            yield from file.read().split("\n")

    def _remember(self, path: str) -> None:
        """Record the place durably before anything is made there, for later launchers."""
        if path in self._known_places():
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(PLACES, flags, 0o600, dir_fd=self._private_fd)
        try:
            os.write(fd, os.fsencode(path) + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _make(place: ScratchRoot, fd: int) -> str:
    """Make a directory in `place`, or a part of it, owned by the launcher; return its name."""
    while True:
        name = place.fresh_name()
        with suppress(FileExistsError):  # of an earlier launcher, and could not be removed
            os.mkdir(name, 0o700, dir_fd=fd)
            return name

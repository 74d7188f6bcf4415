"""Removes directories that tasks leave behind, in a thread: a tree may be large, a disk slow.

What is removed belonged to a user, who may have put anything there. So nothing is entered that was
not first renamed into a directory of the launcher's own: a symbolic link is unlinked and never
followed, and the kernel does not rename what something is mounted on. Such mounts are detached,
which changes nothing in them. Depth is no matter either: a tree is taken apart level by level, with
two descriptors open.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Callable

from iriai.launcher.system.syscalls import detach_mount

log = logging.getLogger(__name__)

ROUNDS_MAX = 5
"""How often a directory is emptied again because it filled up meanwhile: another process of the
user may still write there; then it is left to the next start of the launcher."""
MOUNTS_MAX = 100
"""On one name; each mount hides the one before."""
MOVED_MAX = 1000
"""Subdirectories that wait at once: their names are kept in memory."""


class Removal:
    """One thread, started with the first directory that is not empty."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._thread: threading.Thread | None = None

    def add(self, trash_fd: int, name: str) -> None:
        """Remove the directory `name` of `trash_fd`, which only the launcher can enter."""
        self.call(lambda: remove_tree(trash_fd, name))

    def call(self, action: Callable[[], None]) -> None:
        """Run another action that may take long; it may raise OSError."""
        with self._changed:
            self._waiting.append(action)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="removal", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything is removed or given up; return False after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._is_busy), timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting)
                action = self._waiting.popleft()
                self._is_busy = True
            try:
                action()
            except OSError as error:
                log.warning("a task's directory cannot be removed yet: %s", error)


def remove_tree(trash_fd: int, name: str) -> None:
    """Remove the directory `name` of `trash_fd` with all its content.

    Raises OSError if something remains, after removing all that is possible.
    """
    pending = [_Directory(name)]
    count = 0
    failed: OSError | None = None
    while pending:
        directory = pending.pop()
        try:
            moved = directory.empty(trash_fd, f"{name}.{count}")
        except OSError as error:
            failed = error
            continue
        count += 1
        if moved:
            pending.append(directory)
            pending += map(_Directory, moved)
    if failed is not None:
        raise failed


class _Directory:
    """One directory in the launcher's own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rounds = 0

    def empty(self, trash_fd: int, prefix: str) -> list[str]:
        """Unlink its content and move its full subdirectories out, to names with `prefix`.

        Returns these names; if there are none, the directory itself was removed. Raises OSError.
        """
        if os.geteuid() != 0:  # the user may have removed these permissions
            os.chmod(self._name, stat.S_IRWXU, dir_fd=trash_fd)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._name, flags, dir_fd=trash_fd)
        try:
            while True:
                moved, failed = _take_out_all(fd, trash_fd, prefix)
                if moved:
                    return moved
                if failed is not None:
                    raise failed
                try:
                    os.rmdir(self._name, dir_fd=trash_fd)
                    return []
                except OSError:
                    self._rounds += 1
                    if self._rounds > ROUNDS_MAX:
                        raise
        finally:
            os.close(fd)


def _take_out_all(fd: int, trash_fd: int, prefix: str) -> tuple[list[str], OSError | None]:
    """Empty the directory `fd`; return the new names of full subdirectories.

    Also returns the last error, if something could not be removed or moved.
    """
    moved: list[str] = []
    failed: OSError | None = None
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                if not remove(fd, entry.name):
                    fresh = f"{prefix}.{len(moved)}"
                    move(fd, entry.name, trash_fd, fresh)
                    moved.append(fresh)
            except OSError as error:
                failed = error
            if len(moved) >= MOVED_MAX:
                break
    return moved, failed


def remove(fd: int, name: str) -> bool:
    """Remove what one step can remove; return False for a directory that is not empty."""
    try:
        _unmounted(fd, name, lambda: os.unlink(name, dir_fd=fd))
    except IsADirectoryError:
        try:
            _unmounted(fd, name, lambda: os.rmdir(name, dir_fd=fd))
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
    return True


def move(fd: int, name: str, trash_fd: int, fresh: str) -> None:
    """Move the directory `name` of `fd` into the launcher's own, as `fresh`."""
    if os.geteuid() != 0:  # a directory that its owner may not write cannot be moved
        os.chmod(name, stat.S_IRWXU, dir_fd=fd)
    os.rename(name, fresh, src_dir_fd=fd, dst_dir_fd=trash_fd)


def _unmounted(fd: int, name: str, action: Callable[[], None]) -> None:
    """Run `action`; for each mount on `name`, detach it and run `action` again."""
    for _ in range(MOUNTS_MAX):
        try:
            return action()
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        detach_mount(fd, name)
    return action()

"""One process of a kind per state directory: a locked file with its process id.

Whoever can open a file can lock it. So the file is its owner's alone. Its content counts only for a
process that existed when it was written, and while the lock is held.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress

from iriai.system.process_handle import ProcessHandle, adopt
from iriai.system.procfs import boot_id, read_process

LOCK_MODE = 0o600
"""Whoever can open a file can lock it, so nobody but its owner may."""
TEXT_BYTES = 80
"""A process id, a start time and a boot id, padded to a fixed length, so that it can be overwritten
in place."""
WAIT_S = 0.5
"""How long a lock is requested again: a process that only checks it holds it for a moment."""
_PAUSE_S = 0.01
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class LockHeld(Exception):
    """Another process holds the lock; `pid` is its process id, or None where it is not known."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by process {pid}")
        self.pid = pid


def take_lock(path: str, dir_fd: int | None = None) -> int:
    """Take the lock for the life of this process and write its owner into the file.

    A relative `path` counts from the directory `dir_fd`. Returns the descriptor, which has to stay
    open. Raises `LockHeld`, or OSError where the file cannot be made.
    """
    descriptor = os.open(path, _FLAGS | os.O_RDWR | os.O_CREAT, LOCK_MODE, dir_fd=dir_fd)
    deadline_s = time.monotonic() + WAIT_S
    try:
        _check_ours(descriptor, path)
        while not _try(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline_s:
                raise LockHeld(owner_in(descriptor))
            time.sleep(_PAUSE_S)
        # In place: a full disk still has the room that the last holder used.
        os.pwrite(descriptor, owner_text(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock_holder(path: str) -> int | None:
    """Return the process that holds the lock; None if it is free or its holder is unknown."""
    descriptor = open_lock(path)
    if descriptor is None:
        return None
    try:
        return holder_of(descriptor)
    finally:
        os.close(descriptor)


def open_lock(path: str) -> int | None:
    """Open a lock for `holder_of`, usable after privileges are dropped; None: no such file."""
    try:
        return os.open(path, _FLAGS | os.O_RDONLY)
    except FileNotFoundError:
        return None


def holder_of(descriptor: int) -> int | None:
    """Return the process that holds the lock in an open file, as `lock_holder` does."""
    deadline_s = time.monotonic() + WAIT_S
    while not _try(descriptor, fcntl.LOCK_SH):
        pid = owner_in(descriptor)
        # A holder writes who it is right after it has taken the lock.
        if pid is not None or time.monotonic() > deadline_s:
            return pid
        time.sleep(_PAUSE_S)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return None


def adopt_holder(path: str) -> ProcessHandle | None:
    """Return a handle of the process that holds the lock; None if there is none.

    Raises PermissionError where the file is another user's, who could name any process in it.
    """
    descriptor = open_lock(path)
    if descriptor is None:
        return None
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", path)
        pid = holder_of(descriptor)
        process = adopt(pid) if pid else None
        if process is not None and holder_of(descriptor) != pid:  # its number was reused
            os.close(process.descriptor)
            return None
        return process
    finally:
        os.close(descriptor)


def _check_ours(descriptor: int, path: str) -> None:
    """Raise OSError if another user could lock the file."""
    found = os.fstat(descriptor)
    words = f"it must be a file of user id {os.geteuid()} alone; remove it"
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
        raise OSError(errno.EPERM, words, path)
    os.fchmod(descriptor, LOCK_MODE)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def owner_text() -> bytes:
    """Return what this process writes into a lock that it took."""
    process = read_process(os.getpid())
    ticks = process.started_ticks if process else 0
    return f"{os.getpid()} {ticks} {boot_id()}".ljust(TEXT_BYTES - 1).encode() + b"\n"


def owner_in(descriptor: int) -> int | None:
    """Return the process that wrote into the lock, if it still runs; else None."""
    return live_owner(os.pread(descriptor, TEXT_BYTES, 0))


def live_owner(text: bytes) -> int | None:
    """Return the process that wrote `owner_text`, if it still runs; else None.

    The number alone is no proof: it may be another process by now.
    """
    words = text[:TEXT_BYTES].split()
    if len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        return None
    pid, ticks = int(words[0]), int(words[1])
    if words[2].decode(errors="replace") != boot_id():
        return None
    with suppress(OSError, ValueError):
        process = read_process(pid)
        if process is not None and process.started_ticks == ticks and process.is_live:
            return pid
    return None

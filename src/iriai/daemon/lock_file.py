"""One process of a kind for each state directory: a locked file that holds its process id."""

from __future__ import annotations

import errno
import fcntl
import os
import time

WAIT_S = 0.5
"""How long a lock is asked for again: someone who only looks holds it for a moment."""
_PAUSE_S = 0.01
_TEXT_LENGTH = 20


class LockHeld(Exception):
    """Another process holds the lock; `pid` is its process id, or None where it is not known."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by process {pid}")
        self.pid = pid


def take_lock(path: str) -> int:
    """Take the lock for the life of this process and write our process id into it.

    Returns the descriptor, which has to stay open. Raises `LockHeld`, or OSError where the file
    cannot be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline_s = time.monotonic() + WAIT_S
    try:
        while not _try(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline_s:
                raise LockHeld(_pid_in(descriptor))
            time.sleep(_PAUSE_S)
        # In place: a full disk still has the room that the last holder used.
        os.pwrite(descriptor, f"{os.getpid():<{_TEXT_LENGTH}}\n".encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock_holder(path: str) -> int | None:
    """The process that holds the lock; None where nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    deadline_s = time.monotonic() + WAIT_S
    try:
        while not _try(descriptor, fcntl.LOCK_SH):
            pid = _pid_in(descriptor)
            # A holder writes its pid right after it has taken the lock.
            if pid is not None or time.monotonic() > deadline_s:
                return pid
            time.sleep(_PAUSE_S)
        return None
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _pid_in(descriptor: int) -> int | None:
    text = os.pread(descriptor, _TEXT_LENGTH, 0).strip()
    return int(text) if text.isdigit() else None

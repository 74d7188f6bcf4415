"""Nice values of sessions, by which the kernel divides processor time where no group does.

By default each session is a group of its own for the scheduler (autogroup, sched(7)); its nice
value counts among sessions, while that of a process counts within its session alone. What a task
begins as a further session has no nice value, and whoever owns a process may change it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress

LOWEST = 19
_ENABLED = "/proc/sys/kernel/sched_autogroup_enabled"
_IOPRIO_SET = {"x86_64": 251, "i686": 289, "ppc64le": 273, "s390x": 282, "armv7l": 314}
_IOPRIO_SET_ELSEWHERE = 30
"""The number of ioprio_set(2), for which libraries have no name; newer machines have the last."""
_TEXT_BYTES = 64
_ONE_THREAD, _BY_NICE_VALUE = 1, 0
_libc = ctypes.CDLL(None, use_errno=True)


def has_sessions() -> bool:
    """Return whether the kernel divides processor time by session."""
    try:
        with open(_ENABLED, encoding="ascii") as file:
            return file.read().strip() == "1"
    except OSError:
        return False


def set_nice(pid: int, nice: int) -> bool:
    """Set the nice value of the session of a process; return False if it is to be tried again.

    The kernel lets ordinary users do that ten times a second, all of them together.
    """
    try:
        fd = os.open(f"/proc/{pid}/autogroup", os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended
        return True
    try:
        if int(os.read(fd, _TEXT_BYTES).rpartition(b"nice ")[2] or nice) != nice:
            os.write(fd, str(nice).encode())
    except BlockingIOError:
        return False
    except OSError:  # it has no session of its own for the scheduler
        return True
    finally:
        os.close(fd)
    return True


def leave_idle(pids: Iterable[int]) -> None:
    """Have the sessions of processes count as others do, and disks serve them as others."""
    for pid in pids:
        set_nice(pid, 0)
        serve_as_others(pid)


def serve_as_others(pid: int) -> None:
    """Have disks serve all threads of a process by its nice value, as by default."""
    with suppress(OSError):
        number = _IOPRIO_SET.get(os.uname().machine, _IOPRIO_SET_ELSEWHERE)
        for thread in os.listdir(f"/proc/{pid}/task"):
            _libc.syscall(number, _ONE_THREAD, int(thread), _BY_NICE_VALUE)

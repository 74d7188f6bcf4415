"""What the kernel offers and Python's library does not: subreaper, timers that count sleep."""

from __future__ import annotations

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36
_CLOCK_BOOTTIME = 7
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8

_FAR_S = 1e9
"""Thirty years: a moment that far off fits the kernel's numbers and never comes."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Time), ("value", _Time))


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def become_subreaper() -> None:
    """Have every orphan below this process become its child, so that no tree gets out of sight."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def detach_mount(directory_fd: int, name: str) -> None:
    """Take away what is mounted on `name` in the directory, whether it is in use or not.

    Nothing in it is changed. Raises OSError.
    """
    path = f"/proc/self/fd/{directory_fd}/{name}"
    result = _libc.umount2(os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    _check(result, f"umount {name}")


class BootTimer:
    """One alarm on CLOCK_BOOTTIME: it is due at once when a sleeping machine wakes past it."""

    def __init__(self) -> None:
        created = _libc.timerfd_create(_CLOCK_BOOTTIME, _TFD_NONBLOCK | _TFD_CLOEXEC)
        self.fd = _check(created, "timerfd_create")
        self._set_for_s: float | None = None

    def set(self, steady_s: float | None) -> None:
        """Make `fd` readable at `steady_s` on CLOCK_BOOTTIME; None: never."""
        if steady_s == self._set_for_s:
            return
        self._set_for_s = steady_s
        # A time of zero would disarm; a nanosecond after boot is past for everybody.
        nanoseconds = 0 if steady_s is None else max(1, int(min(steady_s, _FAR_S) * 1e9))
        value = _Timer(_Time(0, 0), _Time(*divmod(nanoseconds, 1_000_000_000)))
        result = _libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, ctypes.byref(value), None)
        _check(result, "timerfd_settime")

    def acknowledge(self) -> None:
        """Make `fd` unreadable again after it was due."""
        self._set_for_s = None
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return

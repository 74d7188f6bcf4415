"""System calls that Python's library lacks: subreaper, timers that count sleep, signals to read."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

Start = Callable[[], int]


class PrivilegedThread:
    """Calls functions in a thread that has the bounding set that the launcher was started with.

    If the launcher is not root there is no such thread: the caller's thread calls them.

    The launcher's own thread empties its bounding set of capabilities, so that every task begins
    without one: to empty it for each task would take 41 system calls, a tenth of what starting a
    short task takes. A thread that began before keeps it, and starts what needs it.
    """

    def __init__(self) -> None:
        """From here on, what the calling thread executes can gain no capability."""
        self._thread: ThreadPoolExecutor | None = None
        if os.geteuid() != 0:
            return
        self._thread = ThreadPoolExecutor(1, "unbounded")
        self._thread.submit(os.getpid).result()  # begins the thread, with the whole bounding set
        with suppress(OSError):  # a container in which root may not; iriai-exec tries, too
            keep_capabilities_inheritable()
            empty_bounding_set()

    def call(self, start: Start) -> int:
        """Return what `start` returns, or raise what it raises."""
        return start() if self._thread is None else self._thread.submit(start).result()


_PR_SET_CHILD_SUBREAPER = 36
_CLOCK_REALTIME = 0
_CLOCK_BOOTTIME = 7
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_TFD_TIMER_CANCEL_ON_SET = 2
_NEVER_WALL_S = 1 << 33
"""In the year 2242."""
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
_CLONE_NEWNS = 0x20000
_PR_CAPBSET_DROP = 24
_CAPABILITIES = 64
_SIGNAL_SET_BYTES = 128
_SIGNAL_INFO_BYTES = 128
"""Of struct signalfd_siginfo, which begins with the signal's number in four bytes."""
_CAPABILITY_VERSION_3 = 0x20080522
_MS_NOSUID = 2
_MS_NODEV = 4
_MS_BIND = 1 << 12
_MS_REC = 1 << 14
_MS_SLAVE = 1 << 19

_FAR_S = 1e9
"""Thirty years: such a time fits the kernel's numbers and never comes."""

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
    """Make every orphan below this process its child, so that no tree gets out of sight."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def detach_mount(directory_fd: int, name: str) -> None:
    """Detach the mount on `name` in the directory, even if it is in use.

    Its content is not changed. Raises OSError.
    """
    path = f"/proc/self/fd/{directory_fd}/{name}"
    result = _libc.umount2(os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    _check(result, f"umount {name}")


def keep_capabilities_inheritable() -> None:
    """Let programs of root keep their capabilities in this thread without a bounding set.

    Raises OSError.
    """
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    sets = (_CapabilitySets * 2)()
    _check(_libc.capget(ctypes.byref(header), sets), "capget")
    for each in sets:
        each.inheritable = each.permitted
    _check(_libc.capset(ctypes.byref(header), sets), "capset")


def empty_bounding_set() -> None:
    """Keep what this thread executes from ever gaining a capability. Raises OSError."""
    for each in range(_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(each), 0, 0, 0) < 0:
            if each and ctypes.get_errno() == errno.EINVAL:  # the kernel has no more
                return
            _check(-1, "prctl(PR_CAPBSET_DROP)")


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilitySets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def leave_mounts() -> None:
    """Give the calling thread a mount namespace of its own, a slave of the current one.

    Mounts of the machine appear in it, and its own do not appear there. Raises OSError.
    """
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_SLAVE, None)


def bind_mount(source_fd: int, target: str) -> None:
    """Mount what `source_fd` refers to, with all mounts in it, at `target` too."""
    _mount(f"/proc/self/fd/{source_fd}", target, None, _MS_BIND | _MS_REC, None)


def mount_tmpfs(target: str, options: str) -> None:
    """Mount a tmpfs at `target`. Raises OSError."""
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, options)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    words = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    data = None if options is None else options.encode()
    _check(_libc.mount(*words, ctypes.c_ulong(flags), data), f"mount {target}")


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


class ClockSteps:
    """Is readable when the wall clock was set, which the kernel also does when a machine wakes."""

    def __init__(self) -> None:
        """Raises OSError."""
        created = _libc.timerfd_create(_CLOCK_REALTIME, _TFD_NONBLOCK | _TFD_CLOEXEC)
        self.fd = _check(created, "timerfd_create")
        flags = _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET
        far = _Timer(_Time(0, 0), _Time(_NEVER_WALL_S, 0))
        _check(_libc.timerfd_settime(self.fd, flags, ctypes.byref(far), None), "timerfd_settime")

    def acknowledge(self) -> None:
        """Make `fd` unreadable again."""
        with suppress(OSError):  # ECANCELED: that is the notice
            os.read(self.fd, 8)


class BlockedSignals:
    """Signals of this process that are read from a descriptor and interrupt nothing.

    To be made before any other thread is started: those inherit that the signals are blocked. One
    that did not would be interrupted by each end of a task, and compete for Python's lock.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        wanted = ctypes.create_string_buffer(_SIGNAL_SET_BYTES)
        _libc.sigemptyset(wanted)
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)  # the parent may have ignored it
            _libc.sigaddset(wanted, number)
        created = _libc.signalfd(-1, wanted, os.O_NONBLOCK | os.O_CLOEXEC)
        self.fd = _check(created, "signalfd")

    def read(self) -> list[int]:
        """Return the numbers of those that came since the last call; the descriptor is readable."""
        content = os.read(self.fd, 16 * _SIGNAL_INFO_BYTES)
        begins = range(0, len(content), _SIGNAL_INFO_BYTES)
        return [int.from_bytes(content[each : each + 4], sys.byteorder) for each in begins]


def raise_priority() -> None:
    """Run before all ordinary processes from now on, where this process may; nothing inherits it.

    Among hundreds of busy tasks it would get its turn too late to freeze or to end one of them. A
    nice value would not do: where sessions are scheduled as groups it counts within them alone.
    """
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(1))

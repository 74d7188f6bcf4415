"""Writes the memory of what stands to swap, so that others have it (docs/spec/016, section 3).

What is to be written is found out by whoever orders it; `write_out` may be called in a thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Protocol

CHUNK_BYTES = 64 << 20
"""Written at once: so late it is noticed that the memory is wanted again."""
PROCESSES_MAX = 256
"""Of a task without a group that can be told: each costs a descriptor meanwhile."""
RANGES_MAX = 65_536
"""Of one process that are looked at; a kernel allows as many by default."""
_PROCESS_MADVISE, _MADV_PAGEOUT = 440, 21

_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("length", ctypes.c_size_t))


class PagedMemory(Protocol):
    """The memory of one task that stands."""

    def write_out(self, is_wanted: Callable[[], bool]) -> None:
        """Write it to swap while `is_wanted`, once. Raises OSError where the kernel does not."""


class GroupMemory:
    """What a version 2 group has."""

    def __init__(self, path: str) -> None:
        """`path` is the group's `memory.reclaim`."""
        self._path = path

    def write_out(self, is_wanted: Callable[[], bool]) -> None:
        """Have the kernel write it out, until it finds nothing more."""
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            while is_wanted():
                os.write(fd, str(CHUNK_BYTES).encode())
        except OSError as error:
            if error.errno != errno.EAGAIN:  # less than asked for was found
                raise
        finally:
            os.close(fd)


class ProcessMemory:
    """What single processes have alone; it takes CAP_SYS_NICE."""

    def __init__(self, pids: Iterable[int]) -> None:
        """They are held on to, so that no other process is taken for one of them."""
        self._pidfds: dict[int, int] = {}
        for pid in islice(pids, PROCESSES_MAX):
            with suppress(OSError):  # it has ended, or there are no descriptors left
                self._pidfds[pid] = os.pidfd_open(pid)

    def write_out(self, is_wanted: Callable[[], bool]) -> None:
        """Write it out process by process; one that has ended by then is left out."""
        try:
            for pid, pidfd in self._pidfds.items():
                with suppress(ProcessLookupError, FileNotFoundError):
                    for begin, end in _own_memory(pid):
                        for at in range(begin, end, CHUNK_BYTES):
                            if not is_wanted():
                                return
                            _page_out(pidfd, at, min(CHUNK_BYTES, end - at))
        finally:
            for pidfd in self._pidfds.values():
                os.close(pidfd)


def _own_memory(pid: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges that are of no file and can be written out."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in islice(file, RANGES_MAX):
            addresses, rights, _, _, inode, *name = line.split(maxsplit=5)
            is_kernels = bool(name) and name[0].startswith(("[vvar", "[vdso", "[vsyscall"))
            if inode == "0" and rights.startswith("rw") and not is_kernels:
                begin, _, end = addresses.partition("-")
                yield int(begin, 16), int(end, 16)


def _page_out(pidfd: int, begin: int, length: int) -> None:
    one = _Range(begin, length)
    result = _libc.syscall(_PROCESS_MADVISE, pidfd, ctypes.byref(one), 1, _MADV_PAGEOUT, 0)
    if result < 0:
        code = ctypes.get_errno()
        if code in (errno.EPERM, errno.ENOSYS, errno.ESRCH):
            raise OSError(code, f"process_madvise: {os.strerror(code)}")
        # Locked memory and the like stays where it is.

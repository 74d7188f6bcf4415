"""Writes the memory of processes to swap, so that others have it (docs/spec/016, section 4)."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

CHUNK_BYTES = 64 << 20
"""Written at once: so late it is noticed that the memory is wanted again."""
RANGES_MAX = 65_536
"""Of one process that are looked at; a kernel allows as many by default."""
_PROCESS_MADVISE, _MADV_PAGEOUT = 440, 21

_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("length", ctypes.c_size_t))


def reclaim_group(path: str, is_wanted: Callable[[], bool]) -> None:
    """Have the kernel write out what a version 2 group has; `path` is its `memory.reclaim`.

    It is over when the kernel finds nothing more, or the memory is wanted again.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        while is_wanted():
            os.write(fd, str(CHUNK_BYTES).encode())
    except OSError as error:
        if error.errno != errno.EAGAIN:  # less than asked for was found
            raise
    finally:
        os.close(fd)


def reclaim_process(pid: int, is_wanted: Callable[[], bool]) -> None:
    """Write out what a process alone has in memory.

    Raises OSError if the kernel does not allow it: it takes CAP_SYS_NICE.
    """
    pidfd = os.pidfd_open(pid)
    try:
        for begin, end in _own_memory(pid):
            for at in range(begin, end, CHUNK_BYTES):
                if not is_wanted():
                    return
                _page_out(pidfd, at, min(CHUNK_BYTES, end - at))
    finally:
        os.close(pidfd)


def _own_memory(pid: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges that are of no file and can be written out."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for _, line in zip(range(RANGES_MAX), file, strict=False):
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
        if code in (errno.EPERM, errno.ENOSYS):
            raise OSError(code, f"process_madvise: {os.strerror(code)}")
        # Locked memory and the like stays where it is.


def reclaim_processes(pids: list[int], is_wanted: Callable[[], bool]) -> None:
    """Write out what each of these has; one that is gone by then is left out. Raises OSError."""
    for pid in pids:
        with suppress(ProcessLookupError, FileNotFoundError):
            reclaim_process(pid, is_wanted)

"""Nothing that a benchmark starts may outlive it: finding and ending what is left, by pid."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ENDING_S_MAX = 10.0
"""Killed processes vanish within milliseconds; one that does not hangs in the kernel."""
_POLL_S = 0.02

_libc = ctypes.CDLL(None, use_errno=True)


def _set_subreaper(wanted: bool) -> None:
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _children() -> set[int]:
    threads = Path("/proc/self/task").iterdir()
    return {int(pid) for each in threads for pid in (each / "children").read_text().split()}


@contextmanager
def none_left() -> Iterator[None]:
    """Adopt every orphan of what is started inside, and end what is left of it.

    Children that were there before stay. SIGTERM ends the block as an exception would. Only for the
    main thread, and not within itself.
    """
    before = _children()
    _set_subreaper(True)
    handler = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        _end_all_but(before)
        signal.signal(signal.SIGTERM, handler)
        _set_subreaper(False)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _end_all_but(kept: set[int]) -> None:
    # Killing a child may hand us its children: go on until no new one is left.
    deadline = time.monotonic() + ENDING_S_MAX
    while left := _children() - kept:
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes do not end: {sorted(left)}")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_POLL_S)

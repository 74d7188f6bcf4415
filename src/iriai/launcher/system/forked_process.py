"""A copy of the launcher that does one thing for it, and talks with nobody else.

It is a fork: it is there at once, needs no disk, and speaks the launcher's own version of their
messages, also after an upgrade has replaced the files (ADR 0118).
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import traceback
import warnings
from collections.abc import Callable

KEPT_FD = 3
"""The only descriptor that it keeps, behind the standard ones."""
_PR_SET_NAME = 15
_libc = ctypes.CDLL(None, use_errno=True)


def fork_process(name: str, serve: Callable[[socket.socket], object]) -> tuple[int, socket.socket]:
    """Start a process of that name (at most 15 bytes), which calls `serve` and then ends.

    Returns its number and the launcher's end of the socket that `serve` is given. The process has
    no other descriptor, a session of its own, and collects no garbage. Raises OSError.
    """
    own, its = socket.socketpair()
    try:
        with warnings.catch_warnings():
            # Python warns of locks that other threads hold; the only one here waits for work.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except OSError:
        own.close()
        its.close()
        raise
    if pid:
        its.close()
        return pid, own
    try:
        serve(_alone(name, its))
    except BaseException:  # noqa: BLE001 - whatever it is, it must not go on as a second launcher
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        os._exit(0)


def _alone(name: str, launcher: socket.socket) -> socket.socket:
    """Keep nothing of the launcher but this socket."""
    fd = os.dup2(launcher.detach(), KEPT_FD)
    os.closerange(KEPT_FD + 1, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGTERM, signal.SIGINT])
    gc.disable()
    gc.freeze()
    launcher = socket.socket(fileno=fd)
    launcher.setblocking(False)
    return launcher

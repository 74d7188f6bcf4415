"""The daemon's socket: bound where clients look for it, while we still may."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_BACKLOG = 512
"""Clients that may wait while the daemon is busy; the system caps it."""


def listen(path: str, *, everybody: bool) -> socket.socket:
    """A listening socket at `path`, in place of one that nobody listens on any more.

    The caller holds the lock of the state directory, so whatever lies there is a left-over. With
    `everybody` all users may connect; who they are, the kernel says. Raises OSError.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o111 if everybody else 0o177)
    try:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener

"""Closes descriptors that came from a user, which may take as long as that user likes.

To close a connection that lingers waits for its other end, and to close a file of a file system
in user space waits for whoever serves it. So it is done in threads of their own, but for pipes, and
for Unix sockets in which nothing was passed.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD

THREADS_MAX = 64
"""Descriptors that are waited for at a time; further ones are closed once one of these is."""
IDLE_S = 10.0
"""How long a thread waits for the next."""

_INT = struct.Struct("i")
_NONE = bytes(_INT.size)


class Closing:
    """Descriptors that are being closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[int] = deque()
        self._idle = 0
        self._threads = 0

    def close(self, descriptor: int) -> None:
        """Close it, now or soon: it is nobody else's from here on."""
        if _is_pipe(descriptor):
            os.close(descriptor)
            return
        with self._changed:
            self._waiting.append(descriptor)
            if self._idle < len(self._waiting) and self._threads < THREADS_MAX:
                self._threads += 1
                threading.Thread(target=self._run, name="closing", daemon=True).start()
            self._changed.notify()

    def close_connection(self, connection: socket.socket) -> None:
        """Close a Unix socket, with all that was passed over it and that nobody has read."""
        if _holds_descriptors(connection):
            self.close(connection.detach())
        else:
            connection.close()

    def _run(self) -> None:
        while (descriptor := self._next()) is not None:
            with suppress(OSError):  # what could not be written is its user's
                os.close(descriptor)

    def _next(self) -> int | None:
        """What is to be closed; None: there is nothing, and the thread ends."""
        with self._changed:
            if not self._waiting:
                self._idle += 1
                self._changed.wait(IDLE_S)
                self._idle -= 1
            if not self._waiting:
                self._threads -= 1
                return None
            return self._waiting.popleft()


def _is_pipe(descriptor: int) -> bool:
    """Whether it is a pipe, as its name says, for which nobody has to be asked."""
    return os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:[")


def _holds_descriptors(connection: socket.socket) -> bool:
    """Whether descriptors may have been passed over it that were not read; nothing more can come.

    A look takes no descriptor in: it says that there would have been something beside the bytes.
    """
    try:
        connection.shutdown(socket.SHUT_RDWR)
        (unread_bytes,) = _INT.unpack(ioctl(connection.fileno(), FIONREAD, _NONE))
        if not unread_bytes:
            return False
        looked = connection.recvmsg(unread_bytes, 0, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return True
    return len(looked[0]) < unread_bytes or bool(looked[2] & socket.MSG_CTRUNC)


CLOSING = Closing()
"""Of this process."""

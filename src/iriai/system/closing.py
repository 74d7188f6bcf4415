"""Closes the descriptors of users in threads, because closing may block.

To close a connection that lingers waits for its other end, and to close a file of a file system in
user space waits for its server. So threads close them; only pipes, and Unix sockets over which no
descriptor was passed, are closed at once. A thread that waits for long gets a signal: a connection
is closed then all the same, and the kernel sends what is left. A file system in user space can
block a thread without end, so one user occupies a few of the threads at most, and while many of
their descriptors wait, nothing more is read from them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD

from iriai.system.passwd_cache import peer_of

THREADS_MAX = 64
"""Descriptors that are closed at once; further ones wait for a thread."""
THREADS_OF_USER_MAX = 16
"""Threads for one user among them."""
OF_USER_MAX = 256
"""Waiting descriptors of one user: with more, nothing is read from that user."""
IDLE_S = 10.0
"""How long a thread waits for the next descriptor."""
PATIENCE_S = 0.1
"""How long a thread waits for one descriptor before it gets the signal."""
LOOK_S = 0.05
"""Between two checks for threads that wait long."""
HURRY_S = 0.003
"""The same pause, and the patience, while there are more descriptors than threads."""
UNKNOWN_USER = -1
"""The user of descriptors whose user is unknown."""

_INT = struct.Struct("i")
_NONE = bytes(_INT.size)


class Closing:
    """Descriptors that are being closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[int, deque[int]] = {}
        """By user id, in the order of their turns."""
        self._count = 0
        """How many wait."""
        self._began_s: dict[int, float] = {}
        """By thread, when it began to close a descriptor."""
        self._busy: Counter[int] = Counter()
        """By user id, how many threads close one of theirs."""
        self._idle = 0
        self._threads = 0
        self._is_watched = False
        self.crowded: frozenset[int] = frozenset()
        """User ids with too many descriptors waiting; hardly ever any."""

    def close(self, descriptor: int, user_id: int = UNKNOWN_USER) -> None:
        """Close `descriptor` now or soon; it belongs to this object from here on."""
        if _is_pipe(descriptor):
            os.close(descriptor)
            return
        with self._changed:
            waiting = self._waiting.setdefault(user_id, deque())
            waiting.append(descriptor)
            self._count += 1
            if len(waiting) == OF_USER_MAX and user_id != UNKNOWN_USER:
                self.crowded |= {user_id}
            if self._idle < self._count and self._threads < THREADS_MAX:
                self._threads += 1
                threading.Thread(target=self._run, name="closing", daemon=True).start()
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="watch-closing", daemon=True).start()
            self._changed.notify()

    def close_connection(self, connection: socket.socket) -> None:
        """Close a Unix socket and the descriptors that were passed over it and not read."""
        if _holds_descriptors(connection):
            user_id = peer_of(connection).uid
            self.close(connection.detach(), user_id)
        else:
            connection.close()

    @property
    def is_busy(self) -> bool:
        """Whether any descriptor is still to be closed."""
        with self._changed:
            return bool(self._began_s or self._count)

    def _close(self, descriptor: int) -> None:
        """Close `descriptor`; called in a thread that may wait."""
        os.close(descriptor)

    def _run(self) -> None:
        thread = threading.get_ident()
        while (found := self._next(thread)) is not None:
            user_id, descriptor = found
            with suppress(OSError):  # its user loses what could not be written
                self._close(descriptor)
            with self._changed:
                del self._began_s[thread]
                self._busy[user_id] -= 1
                if self._waiting.get(user_id):
                    self._changed.notify()

    def _next(self, thread: int) -> tuple[int, int] | None:
        """Wait for work; return user id and descriptor, or None if the thread should end."""
        with self._changed:
            found = self._pop()
            if found is None:
                self._idle += 1
                self._changed.wait(IDLE_S)
                self._idle -= 1
                found = self._pop()
            if found is None:
                self._threads -= 1
                return None
            self._began_s[thread] = time.monotonic()
            self._busy[found[0]] += 1
            return found

    def _pop(self) -> tuple[int, int] | None:
        """Remove a descriptor of the first user below the thread limit; they move to the end."""
        for user_id, waiting in self._waiting.items():
            if self._busy[user_id] >= THREADS_OF_USER_MAX:
                continue
            descriptor = waiting.popleft()
            self._count -= 1
            del self._waiting[user_id]
            if waiting:
                self._waiting[user_id] = waiting
            if user_id in self.crowded and len(waiting) < OF_USER_MAX // 2:
                self.crowded -= {user_id}
            return user_id, descriptor
        return None

    def _watch(self) -> None:
        """Signal the threads that wait for long, until nothing is left to be closed."""
        _handle_signal()
        idle_s = 0.0
        while idle_s < IDLE_S:
            pause_s = HURRY_S if self._count > THREADS_OF_USER_MAX else LOOK_S
            time.sleep(pause_s)
            patience_s = HURRY_S if pause_s == HURRY_S else PATIENCE_S
            with self._changed:
                began_s = time.monotonic() - patience_s
                for thread, thread_began_s in self._began_s.items():
                    if thread_began_s < began_s:
                        signal.pthread_kill(thread, signal.SIGURG)
                idle_s = 0.0 if self._began_s or self._count else idle_s + pause_s
                if idle_s >= IDLE_S:
                    self._is_watched = False


def _handle_signal() -> None:
    """Make SIGURG end a system call, and do nothing else.

    An ignored signal ends none; a handler in Python would wake the main thread each time.
    """
    library = ctypes.CDLL(None)
    library.signal.argtypes = ctypes.c_int, ctypes.c_void_p
    library.signal.restype = ctypes.c_void_p
    library.signal(signal.SIGURG, ctypes.cast(library.abs, ctypes.c_void_p))


def _is_pipe(descriptor: int) -> bool:
    """Return whether it is a pipe, by its name, without asking its file system."""
    return os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:[")


def _holds_descriptors(connection: socket.socket) -> bool:
    """Shut `connection` down; return whether it may hold descriptors that were not read.

    MSG_PEEK takes no descriptor; the flag MSG_CTRUNC shows that there are some.
    """
    try:
        connection.shutdown(socket.SHUT_RDWR)
        (unread_bytes,) = _INT.unpack(ioctl(connection.fileno(), FIONREAD, _NONE))
        if not unread_bytes:
            return False
        peeked = connection.recvmsg(unread_bytes, 0, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return True
    return len(peeked[0]) < unread_bytes or bool(peeked[2] & socket.MSG_CTRUNC)


CLOSING = Closing()
"""Of this process."""

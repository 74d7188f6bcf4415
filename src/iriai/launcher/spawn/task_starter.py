"""A helper that waits for tasks and starts each as a copy of itself, a child of the launcher.

It is iriai-exec with `s=FD`. A copy of that small process takes half the time of starting a program
from this large one, whose descriptors (eight for each task that runs) would be copied, and closed
again. Only what enters control groups is started so: a launcher that ends is followed by one that
finds it there, while its environment shows no mark before it is executed.
"""

from __future__ import annotations

import array
import errno
import os
import socket
import struct
from collections.abc import Mapping, Sequence

REQUEST_BYTES_MAX = 1 << 16
"""As in iriai-exec.c; longer requests are for a helper that is started for them."""
_NUMBER = struct.Struct("=i")


class StarterLost(SystemExit):
    """It ended between a request and its answer, so whether the task was started is not known.

    The launcher ends, and the next one begins from the journal. Nobody but root can end the helper.
    """


class TaskStarter:
    """The helper, begun with the first task."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._socket: socket.socket | None = None
        self._asked = 0
        """Requests without an answer."""
        self._has_answered = False
        self._is_refused = False

    def ask(
        self, arguments: Sequence[str], environment: Mapping[bytes, bytes], namespace_fd: int
    ) -> bool:
        """Ask it to start a task; return False if a helper has to be started for that.

        Several may be asked for; then `answer` tells of each, in this order. `arguments` and
        `environment` are those of a helper, `namespace_fd` is the task's mount namespace, -1 if it
        has none. Raises ValueError for what is no argument or variable.
        """
        if self._is_refused or (self._asked and not self._has_answered):
            return False
        request = _request(arguments, environment)
        if len(request) >= REQUEST_BYTES_MAX:
            return False
        passed = array.array("i", () if namespace_fd < 0 else (namespace_fd,))
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if passed else []
        try:
            connection = self._socket or self._begin()
            connection.sendmsg([request], beside)
        except OSError:  # it cannot begin, or has ended
            if not self._asked:
                self._give_up()
            return False
        self._asked += 1
        return True

    def answer(self) -> int | None:
        """Return the process id of the next task; None: a helper has to be started for it.

        Raises OSError where the kernel refuses another process.
        """
        if self._socket is None:
            raise RuntimeError("it was asked for nothing")
        try:
            answer = self._socket.recv(_NUMBER.size)
        except ConnectionResetError:  # it ended without reading the last request
            if self._asked > 1:
                answer = b""
            else:
                self._give_up()
                return None
        if len(answer) != _NUMBER.size:
            raise StarterLost("the helper that starts tasks ended while it started some")
        self._asked -= 1
        self._has_answered = True
        (pid,) = _NUMBER.unpack(answer)
        if pid in (-errno.ENOSYS, -errno.EINVAL):  # an older kernel, or a container's filter
            self._is_refused = True
            self.close()
            return None
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return int(pid)

    def _give_up(self) -> None:
        """Let the next task have another one, unless none has ever answered."""
        self._is_refused = not self._has_answered
        self._asked = 0
        self.close()

    def close(self) -> None:
        """Let it end."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _begin(self) -> socket.socket:
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            its.set_inheritable(True)
            os.posix_spawn(self._program, [self._program, f"s={its.fileno()}"], {})
        return self._socket


def _request(arguments: Sequence[str], environment: Mapping[bytes, bytes]) -> bytes:
    """Return the message, as iriai-exec.c reads it. Raises ValueError as `posix_spawn` would."""
    if b"=" in b"".join(environment):
        raise ValueError("illegal environment variable name")
    words = os.fsencode("\0".join(arguments))
    text = b"\0".join((words, *map(b"=".join, environment.items()), b""))
    if text.count(b"\0") != len(arguments) + len(environment):
        raise ValueError("embedded null byte")
    return _NUMBER.pack(len(arguments)) + text

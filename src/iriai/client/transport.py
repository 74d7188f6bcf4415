"""Frames over one blocking Unix socket: sent whole, received as available, without deadlock."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from iriai.model.paths import (
    SOCKET_PATH_BYTES_MAX,
    STATE_VARIABLE,
    SYSTEM_STATE_DIRECTORY,
    StatePaths,
    user_state_directory,
)
from iriai.model.problem import NotAllowed, Refused, Unreachable, UsageProblem
from iriai.system.frames import FRAME_BYTES_MAX, FrameReader, FrameTooLong

CONNECT_WAIT_S = 10.0
"""A daemon whose queue of connections is full this long is not going to answer."""


def candidate_directories(
    option: str | None, environment: Mapping[str, str], uid: int
) -> tuple[str, ...]:
    """The state directories in which a client looks for a daemon, the preferred first.

    One that was named, by `option` or the environment, is the only one: a job must not go
    elsewhere because of a daemon that happens to be down.
    """
    named = option or environment.get(STATE_VARIABLE)
    if named:
        return (str(Path(named).absolute()),)
    if uid == 0:
        return (SYSTEM_STATE_DIRECTORY,)
    try:
        own = user_state_directory(environment)
    except UsageProblem:  # no home, so no daemon of one's own
        return (SYSTEM_STATE_DIRECTORY,)
    return (own, SYSTEM_STATE_DIRECTORY)


def open_connection(directories: tuple[str, ...]) -> tuple[socket.socket, str]:
    """A connection to the first daemon that listens, and its socket's path.

    Raises:
        UsageProblem: a path is longer than the system allows.
        NotAllowed: there is a socket that this user may not connect to.
        Unreachable: nobody listens.
    """
    paths = [StatePaths(directory).daemon_socket for directory in directories]
    for path in paths:
        connection = _try(path)
        if connection is not None:
            return connection, path
    raise Unreachable(
        "no-daemon",
        f"no daemon is running: nothing listens on {' or '.join(paths)}",
        "start one with 'iriai up', or name its state directory with --state",
    )


def open_front_end(path: str) -> tuple[socket.socket, str]:
    """A connection to a front end's socket, as its back end named it, and the path again.

    Raises as `open_connection`.
    """
    connection = _try(path)
    if connection is None:
        raise Unreachable(
            "no-front-end",
            f"this is a back end, and its front end is not running: nothing listens on {path}",
            "start it with 'iriai up'; 'iriai status' and 'iriai nodes' show this machine alone",
        )
    return connection, path


def _try(path: str) -> socket.socket | None:
    """A connection, or None where nobody listens."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise UsageProblem(
            "socket-path-too-long",
            f"the socket {path} has a path of {length} bytes, more than the "
            f"{SOCKET_PATH_BYTES_MAX} that the system allows",
            "choose a shorter directory with --state",
        )
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A socket that does not block is refused at once where others wait to be taken in.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(CONNECT_WAIT_S))
        connection.connect(path)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(0.0))
    except (FileNotFoundError, NotADirectoryError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        if isinstance(error, ConnectionRefusedError) and Path(path).is_socket():
            return None
        raise _problem_of(error, path) from None
    return connection


def _timeval(seconds: float) -> bytes:
    """As setsockopt(2) takes it; 0 is no limit."""
    whole = int(seconds)
    return struct.pack("@ll", whole, int((seconds - whole) * 1e6))


def _problem_of(error: OSError, path: str) -> NotAllowed | Unreachable:
    if isinstance(error, PermissionError):
        return NotAllowed(
            "not-your-socket",
            f"you may not connect to {path}",
            "it is another user's daemon: start your own with 'iriai up', or name one with --state",
        )
    if isinstance(error, TimeoutError | BlockingIOError):
        return Unreachable(
            "daemon-silent",
            f"the process that listens on {path} has not accepted a connection for "
            f"{CONNECT_WAIT_S:.0f} s",
            "it may be stopped or overloaded: see log/daemon.log in its state directory",
        )
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(
            "not-a-socket", f"{path} is not a socket", "name another directory with --state"
        )
    return Unreachable(
        "no-daemon", f"{path} cannot be reached ({os.strerror(error.errno or 0)})", ""
    )


READ_BYTES = 1 << 18
"""About what the kernel holds for a Unix socket: more in one read does not come."""


class ConnectionLost(Unreachable):
    """The daemon went away with requests unanswered: what became of them is not known here."""


class NotIriai(Unreachable):
    """The process that listens on the socket does not use our protocol."""


class Transport:
    """One connection; for one thread at a time."""

    def __init__(self, connection: socket.socket, path: str) -> None:
        self.path = path
        """The socket's, for messages."""
        self._socket = connection
        self._frames = FrameReader()

    def send(self, data: bytes, descriptor: int | None = None) -> list[bytes]:
        """Send all of `data`; returns the payloads of frames that arrived meanwhile.

        Whatever the daemon says is read while it does not take more, so that two full buffers
        never wait for each other. `descriptor` travels beside the first byte.

        Raises:
            ConnectionLost: the daemon is gone.
            Refused: a frame would be longer than the daemon reads.
        """
        if len(data) > FRAME_BYTES_MAX:
            raise Refused(
                "too-long",
                f"a request of {len(data) >> 20} MiB is more than the {FRAME_BYTES_MAX >> 20} MiB "
                "that a daemon reads",
                "put large contents into files that the job reads",
            )
        arrived: list[bytes] = []
        view = memoryview(data)
        try:
            if descriptor is not None:
                view = view[socket.send_fds(self._socket, [view], [descriptor]) :]
            while view:
                try:
                    view = view[self._send_now(view) :]
                except BlockingIOError:
                    arrived += self._receive_while_full()
        except OSError as error:
            raise self._lost() from error
        return arrived

    def receive(self, timeout_s: float | None = None) -> list[bytes]:
        """The payloads of the next frames; none when `timeout_s` passes without any.

        Raises:
            ConnectionLost: the daemon is gone.
            NotIriai: the peer does not send frames.
        """
        if timeout_s is not None and not self._is_readable(timeout_s):
            return []
        while not (frames := self._read()):
            if timeout_s is not None:
                return []
        return frames

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _receive_while_full(self) -> list[bytes]:
        """Wait until the daemon takes or says something; what it said."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLOUT)
        [(_, events)] = poll.poll()
        return self._read() if events & select.POLLIN else []

    def _send_now(self, view: memoryview) -> int:
        """How much of `view` went out; raises `BlockingIOError` where the peer takes none."""
        return self._socket.send(view, socket.MSG_DONTWAIT)

    def _receive_some(self) -> bytes:
        """What came, at least one byte; none at the end."""
        return self._socket.recv(READ_BYTES)

    def _is_readable(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _read(self) -> list[bytes]:
        try:
            data = self._receive_some()
        except OSError as error:
            raise self._lost() from error
        if not data:
            raise self._lost()
        try:
            return self._frames.feed(data)
        except FrameTooLong:
            raise foreign(self.path) from None

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(
            "daemon-gone",
            f"the daemon at {self.path} went offline before it answered",
            "see its jobs with 'iriai jobs'; if it does not come back, see log/daemon.log in "
            "its state directory",
        )


def foreign(path: str) -> NotIriai:
    """The problem of a socket that is not ours."""
    return NotIriai(
        "not-iriai",
        f"the process that listens on {path} is not a daemon of iriai",
        "name another state directory with --state",
    )

"""Frames over one blocking Unix socket: sent whole, received as they come, never in a deadlock."""

from __future__ import annotations

import select
import socket

from iriai.model.problem import Refused, Unreachable
from iriai.system.frames import FRAME_BYTES_MAX, FrameReader, FrameTooLong

READ_BYTES = 1 << 18
"""About what the kernel holds for a Unix socket: more in one read does not come."""


class ConnectionLost(Unreachable):
    """The daemon went away with requests unanswered: what became of them is not known here."""


class NotIriai(Unreachable):
    """What listens on the socket does not speak our protocol."""


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
            f"the daemon at {self.path} went away before it answered",
            "see what it knows with 'iriai jobs'; if it does not come back, see log/daemon.log in "
            "its state directory",
        )


def foreign(path: str) -> NotIriai:
    """The problem of a socket that is not ours."""
    return NotIriai(
        "not-iriai",
        f"what listens on {path} is not a daemon of iriai",
        "name another state directory with --state",
    )

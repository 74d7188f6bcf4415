"""Frames over one blocking Unix socket: sent completely, received as available."""

from __future__ import annotations

import select
import socket

from iriai.model.problem import Refused, Unreachable
from iriai.system.frames import FRAME_BYTES_MAX, FrameReader, FrameTooLong

READ_BYTES = 1 << 18
"""Bytes of one read: about as many as the kernel holds for a Unix socket."""


class ConnectionLost(Unreachable):
    """The connection ended before the answer; the daemon may have carried out the request."""


class NotIriai(Unreachable):
    """The process that listens on the socket does not speak the protocol of iriai."""


class Transport:
    """Frames over one blocking socket; for one thread at a time."""

    def __init__(self, connection: socket.socket, path: str) -> None:
        self.path = path
        """Path of the socket (or address), for messages."""
        self._socket = connection
        self._frames = FrameReader()

    def send(self, data: bytes, descriptor: int | None = None) -> list[bytes]:
        """Send all of `data`; return the payloads of frames that arrived meanwhile.

        While the daemon accepts no more data, its frames are read, so that two full buffers cannot
        deadlock. `descriptor` is sent with the first byte.

        Raises:
            ConnectionLost: the daemon closed the connection.
            Refused: the frame is longer than the daemon reads.
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
        """Return the payloads of the next frames; none if `timeout_s` passes without any.

        Raises:
            ConnectionLost: the daemon closed the connection.
            NotIriai: the peer does not send frames.
        """
        if timeout_s is not None and not self._is_readable(timeout_s):
            return []
        while not (frames := self._read()):
            if timeout_s is not None:
                return []
        return frames

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive_while_full(self) -> list[bytes]:
        """Wait until the socket is readable or writable; return the payloads that arrived."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLOUT)
        [(_, events)] = poll.poll()
        return self._read() if events & select.POLLIN else []

    def _send_now(self, view: memoryview) -> int:
        """Send a part of `view`; return its size. Raise `BlockingIOError` if the buffer is full."""
        return self._socket.send(view, socket.MSG_DONTWAIT)

    def _receive_some(self) -> bytes:
        """Return available data, at least one byte; none at the end of the stream."""
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
    """Return the problem with a process that does not speak the protocol."""
    return NotIriai(
        "not-iriai",
        f"the process that listens on {path} is not a daemon of iriai",
        "name another state directory with --state",
    )

"""A non-blocking Unix socket in the event loop: frames in (descriptors beside them), bytes out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from iriai.wire.frames import FrameReader, FrameTooLong

READ_BYTES = 1 << 18
"""What one read takes at most: large enough to batch, small enough to stay fair."""
DESCRIPTORS_MAX = 64
"""Descriptors that one read may bring; each frame that has one is small, so few fit in a read."""
UNSENT_BYTES_MAX = 512 << 20
"""A peer that does not read what it asked for is cut off: two of the largest frames."""


class Stream:
    """One connection; `on_frames` is called with each batch that arrived, `on_close` once."""

    def __init__(
        self,
        connection: socket.socket,
        on_frames: Callable[[list[bytes]], None],
        on_close: Callable[[str], None],
    ) -> None:
        self._socket = connection
        self._socket.setblocking(False)
        self._on_frames = on_frames
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader()
        self._unsent = bytearray()
        self._is_writing = False
        self._is_closed = False
        self.descriptors: list[int] = []
        """Received and not taken yet, in the order of their frames; closed with the stream."""
        self._loop.add_reader(connection.fileno(), self._readable)

    def write(self, data: bytes) -> None:
        """Send `data`, as soon as the peer takes it."""
        if self._is_closed:
            return
        if not self._unsent:
            sent = self._try_send(data)
            if sent is None or sent == len(data):
                return
            data = data[sent:]
        self._unsent += data
        if len(self._unsent) > UNSENT_BYTES_MAX:
            self.close("it does not read what it asked for")
        elif not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def write_with_descriptors(self, data: bytes, descriptors: list[int]) -> None:
        """Send `data` with `descriptors` beside its first byte. Blocks for as long as that byte.

        The kernel keeps its own copies; the caller may close the descriptors afterwards.
        """
        if self._is_closed:
            return
        self._socket.setblocking(True)
        try:
            self._socket.sendall(self._unsent)
            self._unsent.clear()
            sent = socket.send_fds(self._socket, [data], descriptors)
            self._socket.sendall(data[sent:])
        except OSError as error:
            self.close(str(error))
            return
        self._socket.setblocking(False)

    def close(self, reason: str) -> None:
        """End the connection; `on_close` hears why."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._socket.fileno())
        if self._is_writing:
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for descriptor in self.descriptors:
            close_descriptor(descriptor)
        self.descriptors.clear()
        self._on_close(reason)

    def _readable(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, READ_BYTES, DESCRIPTORS_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error))
            return
        self.descriptors += descriptors
        if not data:
            self.close("it closed the connection")
            return
        try:
            frames = self._frames.feed(data)
        except FrameTooLong as error:
            self.close(str(error))
            return
        if frames:
            self._on_frames(frames)

    def _writable(self) -> None:
        sent = self._try_send(self._unsent)
        if sent is None:
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._is_writing = False
            self._loop.remove_writer(self._socket.fileno())

    def _try_send(self, data: bytes | bytearray) -> int | None:
        """How much went out now; None where the connection is gone."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.close(str(error))
            return None


def close_descriptor(descriptor: int) -> None:
    """Close a descriptor that came from elsewhere."""
    socket.close(descriptor)

"""The other end of a socket of the product."""

from __future__ import annotations

import socket
from collections.abc import Iterator

_READ_BYTES = 1 << 20


class Peer:
    """The other end of a connection: frames, in both directions."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._read = b""
        self.messages = 0
        self.bytes = 0

    def send(self, payloads: list[bytes]) -> None:
        """Send frames together."""
        data = b"".join(len(each).to_bytes(4, "big") + each for each in payloads)
        self.messages += len(payloads)
        self.bytes += len(data)
        if data and self._socket.send(data) != len(data):
            raise RuntimeError("a socket's buffer is too small for this case")

    def receive(self) -> Iterator[bytes]:
        """Yield the frames that have arrived."""
        while True:
            try:
                piece = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                break
            self.bytes += len(piece)
            self._read += piece
            if not piece:
                raise RuntimeError("the product closed a connection of the guard")
        while len(self._read) >= 4 + (size := int.from_bytes(self._read[:4] or b"\xff" * 4, "big")):
            yield self._read[4 : 4 + size]
            self._read = self._read[4 + size :]
            self.messages += 1

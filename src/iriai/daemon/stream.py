"""Frames over a connection: a Unix socket's, with descriptors beside them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from iriai.daemon.pipe import SocketPipe
from iriai.wire.frames import FrameReader, FrameTooLong


class FrameStream(Protocol):
    """What a link asks of its connection; see `Stream`, and `daemon.tls_stream` over a network."""

    unsent_bytes_max: int
    descriptors: list[int]
    is_at_fault: bool
    """Whether it was closed since the peer sent a frame that is too long."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection is over."""

    def redirect(
        self, on_frames: Callable[[list[bytes]], None], on_close: Callable[[str], None]
    ) -> None:
        """Tell others from now on."""

    def write(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send frames."""

    def read_out(self) -> None:
        """Take in everything that has arrived, without waiting for more."""

    def close(self, reason: str) -> None:
        """End the connection; `on_close` hears why."""


class Stream(SocketPipe):
    """One connection; `on_frames` is called with each batch that arrived, `on_close` once."""

    def __init__(
        self,
        connection: socket.socket,
        on_frames: Callable[[list[bytes]], None],
        on_close: Callable[[str], None],
    ) -> None:
        super().__init__(connection, self._received, on_close)
        self._on_frames = on_frames
        self._frames = FrameReader()
        self.is_at_fault = False

    def redirect(
        self, on_frames: Callable[[list[bytes]], None], on_close: Callable[[str], None]
    ) -> None:
        """Tell others from now on: the peer has said what the connection is for."""
        self._on_frames = on_frames
        self._on_close = on_close

    def _received(self, data: bytes) -> None:
        try:
            frames = self._frames.feed(data)
        except FrameTooLong as error:
            self.is_at_fault = True
            self.close(str(error))
            return
        if frames:
            self._on_frames(frames)

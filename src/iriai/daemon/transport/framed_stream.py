"""Frames over a connection: a Unix socket's, with descriptors beside them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from iriai.daemon.transport.transport import DESCRIPTORS_MAX, SocketStream
from iriai.policy.service.connection_limits import Allowance
from iriai.system.frames import FRAME_BYTES_MAX, FrameReader, FrameTooLong

CLIENT_DESCRIPTORS_MAX = 4
"""Of a client: requests have one at most, and all of them are looked at before more are read."""


def unbounded(_: int) -> str:
    """Who holds so much of what is not complete may."""
    return ""


class FrameStream(Protocol):
    """What a link asks of its connection; see `FramedStream`, and `tls_stream` over a network."""

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


class FramedStream(SocketStream):
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
        self._unfinished: Allowance | None = None
        self._user = ""
        self._counted_bytes = 0
        self.is_at_fault = False
        self._last_word: Callable[[int, int], bytes] | None = None

    def allow(
        self, frame_bytes_max: int, last_word: Callable[[int, int], bytes] | None = None
    ) -> None:
        """The peer may send frames of this size from here on.

        `last_word` is what it is told of a longer one, made of its length and the most.
        """
        self._frames.bytes_max = frame_bytes_max
        self._last_word = last_word or self._last_word

    def bound(self, unfinished: Allowance, user: str) -> None:
        """Count for `user` what of a frame is still incomplete, and close where that is too much.

        The connection is a client's: it passes descriptors one request after the other.
        """
        self.descriptors_max = CLIENT_DESCRIPTORS_MAX
        self._unfinished, self._user = unfinished, user

    def unbound(self) -> None:
        """The connection is a link from here on, whose peer is trusted with more."""
        counted_bytes = self._counted_bytes
        self._count(0)
        self._counted_bytes = counted_bytes
        self._unfinished = None
        self._last_word = None
        self._frames.bytes_max = FRAME_BYTES_MAX
        self.descriptors_max = DESCRIPTORS_MAX

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
            if self._last_word is not None:
                self.write(self._last_word(error.length, error.bytes_max))
            self.close(str(error))
            return
        held_bytes = self._frames.held_bytes
        if held_bytes != self._counted_bytes:
            self._count(held_bytes)
        if frames:
            self._on_frames(frames)

    def close(self, reason: str) -> None:
        """End the connection; `on_close` hears why."""
        self._frames = FrameReader(0)  # what was kept of a frame is given back at once
        self._count(0)
        super().close(reason)

    def _count(self, held_bytes: int) -> None:
        """So much of a frame has come."""
        more = held_bytes - self._counted_bytes
        self._counted_bytes = held_bytes
        if self._unfinished is None:
            return
        if more <= 0:
            if more:
                self._unfinished.give_back(self._user, -more)
            return
        has_room = self._unfinished.has_room(self._user, more)
        self._unfinished.add(self._user, more)
        if not has_room:
            self.is_at_fault = True
            self.close(f"{self._unfinished.what} of {self._user}: {self._unfinished.key} is less")

"""Transports of client connections: a Unix socket, or TLS over a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

OnFrames = Callable[[list[bytes]], None]
OnClose = Callable[[str], None]


class ClientStream(Protocol):
    """The connection of a client: `FramedStream` of a Unix socket, or TLS."""

    descriptors: list[int]

    def redirect(self, on_frames: OnFrames, on_close: OnClose) -> None:
        """Tell others from now on."""

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet."""

    def drains_to(self, on_drained: Callable[[], None]) -> None:
        """Have `on_drained` called whenever all that waited has been sent."""

    def pause(self) -> None:
        """Read no more until `resume`."""

    def resume(self) -> None:
        """Read again."""

    def write(self, data: bytes) -> None:
        """Send frames."""

    def close(self, reason: str) -> None:
        """End the connection; `on_close` hears why."""


BeginStream = Callable[[OnFrames, OnClose], ClientStream]
"""Begins to tell of what comes."""

"""Frames inside TLS over any pipe: a socket's, or a circuit's through machines that must not read.

The handshake goes on in the event loop as bytes come; it takes a millisecond or two of work at each
end. Until the peer has proved who it is it can make us hold little, and for a short while only.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from iriai.daemon.transport.socket_stream import ByteStream, FramedStream, SocketStream
from iriai.links.core import HANDSHAKE_S
from iriai.links.session import unbounded
from iriai.system.frames import FrameReader, FrameTooLong
from iriai.wire.greetings import GREETING_BYTES_MAX

HANDSHAKE_BYTES_MAX = 64 << 10
"""Of a peer that has proved nothing. A chain of certificates is a few kB."""
_RECORD_BYTES = 1 << 18
"""Decrypted at a time."""


class TlsStream:
    """Frames inside TLS; `on_secure` is called once, after the handshake."""

    def __init__(
        self,
        pipe: ByteStream,
        context: ssl.SSLContext,
        *,
        is_server: bool,
        on_secure: Callable[[bytes | None], None],
        on_frames: Callable[[list[bytes]], None],
        on_close: Callable[[str], None],
        on_admitted: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_secure` gets the peer's certificate (DER), or None without one.

        `on_admitted` is called once, when the connection may stay or is closed: it no longer counts
        as unauthenticated.
        """
        self.is_at_fault = False
        self.is_secure = False
        """Whether the handshake is over."""
        self._on_admitted = on_admitted
        self._pipe = pipe
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._frames = FrameReader(GREETING_BYTES_MAX)
        self._on_secure = on_secure
        self._on_frames = on_frames
        self._on_close = on_close
        self._unproved_bytes = 0
        self._hold: Callable[[int], str] = unbounded
        self._held_bytes = 0
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(
            HANDSHAKE_S,
            self.close,
            f"it has not completed the TLS handshake within {HANDSHAKE_S:.0f} s",
        )
        self._is_server = is_server

    def begin(self) -> None:
        """Start the TLS handshake."""
        self._pipe.listen(self._received, self._closed)
        if not self._is_server:
            self._shake_hands()

    @property
    def is_closed(self) -> bool:
        """Whether the connection is over."""
        return self._pipe.is_closed

    @property
    def unsent_bytes_max(self) -> int:
        """What may wait for a peer that does not read."""
        return self._pipe.unsent_bytes_max

    @unsent_bytes_max.setter
    def unsent_bytes_max(self, value: int) -> None:
        self._pipe.unsent_bytes_max = value

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the peer has not read yet; 0 for a circuit."""
        return self._pipe.unsent_bytes if isinstance(self._pipe, SocketStream) else 0

    def drains_to(self, on_drained: Callable[[], None]) -> None:
        """Call `on_drained` whenever everything has been sent."""
        if isinstance(self._pipe, SocketStream):
            self._pipe.drains_to(on_drained)

    def pause(self) -> None:
        """Read nothing more until `resume`; without effect on a circuit."""
        if isinstance(self._pipe, SocketStream):
            self._pipe.pause()

    def resume(self) -> None:
        """Read again."""
        if isinstance(self._pipe, SocketStream):
            self._pipe.resume()

    def allow(self, frame_bytes_max: int) -> None:
        """Accept frames of up to this size from now on."""
        self._frames.bytes_max = frame_bytes_max

    def bound(self, hold: Callable[[int], str]) -> None:
        """Limit incomplete frames: `hold` gets their bytes, and returns why they are too many.

        Then the connection is closed; empty: they are not.
        """
        self._hold = hold

    @property
    def has_spoken(self) -> bool:
        """Whether anything was received."""
        return self._unproved_bytes > 0

    def admit(self) -> None:
        """Let the connection stay: both ends have agreed on its purpose."""
        self._deadline.cancel()
        on_admitted, self._on_admitted = self._on_admitted, lambda: None
        on_admitted()

    def trust(self, frame_bytes_max: int) -> None:
        """Let an authenticated peer stay, and accept frames of this size."""
        self.allow(frame_bytes_max)
        self.admit()

    def redirect(
        self, on_frames: Callable[[list[bytes]], None], on_close: Callable[[str], None]
    ) -> None:
        """Replace both listeners."""
        self._on_frames = on_frames
        self._on_close = on_close

    def write(self, data: bytes) -> None:
        """Send frames; only after the handshake."""
        if self.is_closed:
            return
        if not self.is_secure:
            raise RuntimeError("nothing is sent to an unauthenticated peer")
        self._tls.write(data)
        self._flush()

    def read_out(self) -> None:
        """Handle everything that has arrived."""
        self._pipe.read_out()

    def close(self, reason: str) -> None:
        """End the connection."""
        self._pipe.close(reason)

    def _received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self.is_secure:
            self._unproved_bytes += len(data)
            if self._unproved_bytes > HANDSHAKE_BYTES_MAX:
                self.close(f"it sent more than {HANDSHAKE_BYTES_MAX} bytes without authentication")
                return
            self._shake_hands()
        if self.is_secure:
            self._read()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()  # the alert, so that the peer knows why
            self.close(error_text(error))
            return
        self.is_secure = True
        self._flush()
        self._on_secure(self._tls.getpeercert(binary_form=True))

    def _read(self) -> None:
        """Decrypt and pass on what has arrived; a listener may close or redirect meanwhile."""
        while not self.is_closed:
            try:
                plain = self._tls.read(_RECORD_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as error:
                self._flush()
                self.close(error_text(error))
                return
            if not plain:
                self.close("it closed the connection")
                return
            try:
                frames = self._frames.feed(plain)
            except FrameTooLong as error:
                self.is_at_fault = True
                self.close(str(error))
                return
            if len(self._frames.held) != self._held_bytes and not self._may_hold():
                return
            if frames:
                self._on_frames(frames)
        self._flush()

    def _may_hold(self) -> bool:
        """Return whether the incomplete frame is allowed; close the connection if not."""
        self._held_bytes = len(self._frames.held)
        why_not = self._hold(self._held_bytes)
        if why_not:
            self.is_at_fault = True
            self.close(why_not)
        return not why_not

    def _flush(self) -> None:
        if self._outgoing.pending and not self.is_closed:
            self._pipe.write(self._outgoing.read())

    def _closed(self, reason: str) -> None:
        self.admit()
        self._frames = FrameReader(0)  # what was kept of a frame is given back at once
        self._hold(0)
        self._on_close(reason)


FrameStream = FramedStream | TlsStream
"""The connection under a link or a client: a Unix socket's, or TLS over a network."""


def error_text(error: ssl.SSLError) -> str:
    """Return the error for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {error.verify_message}"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "alert" in reason or "unknown ca" in reason:
        return f"it rejected our certificate ({reason})"
    return f"TLS failed ({reason})"

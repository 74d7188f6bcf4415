"""Byte streams in the event loop, which carry frames, TLS or anything else.

A `ByteStream` is a connected socket (`SocketStream`), or a circuit through a relay (`circuit`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from iriai.system.closing import CLOSING, UNKNOWN_USER
from iriai.system.frames import FRAME_BYTES_MAX, FrameReader, FrameTooLong
from iriai.system.internal_errors import FAULTS
from iriai.system.passwd_cache import peer_of

READ_BYTES = 1 << 16
"""What one read takes at most: large enough to batch, small enough to stay fair, and less than gets
pages of its own (`watched_process.MALLOC`), which each read would pay for."""
RECEIVED_DESCRIPTORS_MAX = 253
"""What the kernel passes with one message; with room for less it would close the others at once."""
CROWDED_S = 0.05
"""Until it is read again from who passed more than can be closed."""
UNSENT_BYTES_MAX = 512 << 20
"""A peer that does not read what it asked for is cut off: two of the largest frames."""


class ByteStream(Protocol):
    """One connection: bytes in are told, bytes out are sent as soon as the other end takes them."""

    unsent_bytes_max: int

    @property
    def is_closed(self) -> bool:
        """Whether the connection is over."""

    def listen(self, on_data: Callable[[bytes], None], on_close: Callable[[str], None]) -> None:
        """Whom to tell from now on: of bytes, and once of the end."""

    def write(self, data: bytes) -> None:
        """Send `data`."""

    def read_out(self) -> None:
        """Take in everything that has arrived, without waiting for more."""

    def close(self, reason: str) -> None:
        """End the connection, once; `on_close` hears why."""


class SocketStream:
    """A socket that is connected; descriptors may come beside the bytes of a Unix socket."""

    def __init__(
        self,
        connection: socket.socket,
        on_data: Callable[[bytes], None],
        on_close: Callable[[str], None],
    ) -> None:
        self._socket = connection
        self._socket.setblocking(False)
        self._on_data = on_data
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0
        """Bytes that the peer has not read yet."""
        self._is_writing = False
        self.is_closed = False
        self._is_paused = False
        self._is_at_end = False
        """Whether all that the peer ever sent was read."""
        self._on_drained: Callable[[], None] | None = None
        self.unsent_bytes_max = UNSENT_BYTES_MAX
        self.descriptors_max = DESCRIPTORS_MAX
        """Received and not taken yet; with more the connection is closed."""
        self.descriptors: list[int] = []
        """Received and not taken yet, in the order of their frames; closed with the stream."""
        self._loop.add_reader(connection.fileno(), self._readable)

    def listen(self, on_data: Callable[[bytes], None], on_close: Callable[[str], None]) -> None:
        """Replace both listeners."""
        self._on_data = on_data
        self._on_close = on_close

    def drains_to(self, on_drained: Callable[[], None]) -> None:
        """Call `on_drained` whenever everything has been sent."""
        self._on_drained = on_drained

    def pause(self) -> None:
        """Read no more until `resume`: the peer waits as soon as the kernel holds enough of it."""
        if not self._is_paused and not self.is_closed:
            self._is_paused = True
            self._loop.remove_reader(self._socket.fileno())

    def resume(self) -> None:
        """Read again."""
        if self._is_paused and not self.is_closed:
            self._is_paused = False
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def write(self, data: bytes) -> None:
        """Send `data`, as soon as the peer takes it."""
        if self.is_closed:
            return
        self._unsent.append(memoryview(data))
        self.unsent_bytes += len(data)
        if not self._is_writing:
            self._send_some()
        if self.unsent_bytes > self.unsent_bytes_max:
            self.close("it does not read the answers")
        elif self._unsent and not self._is_writing and not self.is_closed:
            self._is_writing = True
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def read_out(self) -> None:
        """Take in everything that has arrived, without waiting for more."""
        while not self.is_closed and self._read_once():
            pass

    def close(self, reason: str) -> None:
        """End the connection; `on_close` hears why."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._socket.fileno())
        if self._is_writing:
            self._loop.remove_writer(self._socket.fileno())
        user_id = self._user_id() if self.descriptors else UNKNOWN_USER
        self._close_socket()
        close_descriptors(self.descriptors, user_id)
        self._unsent.clear()
        self.unsent_bytes = 0
        self._on_close(reason)

    def _close_socket(self) -> None:
        """With what was not read go descriptors that were passed beside it."""
        if self._is_at_end or self._socket.family is not socket.AF_UNIX:
            self._socket.close()
        else:
            CLOSING.close_connection(self._socket)

    def _readable(self) -> None:
        if CLOSING.crowded and self._user_id() in CLOSING.crowded:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(CROWDED_S, self._read_again)
            return
        try:
            self._read_once()
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            self.close(FAULTS.note("a connection whose bytes came", error))

    def _read_again(self) -> None:
        if not self._is_paused and not self.is_closed:
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def _user_id(self) -> int:
        """Of the other end, where that is a process of this machine."""
        is_local = self._socket.family is socket.AF_UNIX
        return peer_of(self._socket).uid if is_local else UNKNOWN_USER

    def _read_once(self) -> bool:
        """Take in one read of what has arrived; whether there was anything."""
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._socket, READ_BYTES, RECEIVED_DESCRIPTORS_MAX
            )
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self.close(str(error))
            return False
        self.descriptors += descriptors
        if not data:
            self._is_at_end = True
            self.close("it closed the connection")
            return False
        self._on_data(data)
        if len(self.descriptors) > self.descriptors_max:
            self.close("it passes descriptors that nobody asked for")
        return True

    def _writable(self) -> None:
        try:
            self._send_some()
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            self.close(FAULTS.note("a connection that was written to", error))
        if not self._unsent and not self.is_closed:
            self._is_writing = False
            self._loop.remove_writer(self._socket.fileno())
            if self._on_drained is not None:
                self._on_drained()

    def _send_some(self) -> None:
        """Send what the peer takes now."""
        while self._unsent:
            data = self._unsent[0]
            try:
                sent = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.close(str(error))
                return
            self.unsent_bytes -= sent
            if sent < len(data):
                self._unsent[0] = data[sent:]
                return
            self._unsent.popleft()


def close_descriptors(descriptors: list[int], user_id: int = UNKNOWN_USER) -> None:
    """Close descriptors that were received, and empty the list; none of them can block us."""
    while descriptors:
        CLOSING.close(descriptors.pop(), user_id)


CLIENT_DESCRIPTORS_MAX = 0
"""Of a client, or another machine: nobody asks for any."""
DESCRIPTORS_MAX = 64
"""Of the launcher, beside a frame that has not come whole."""


def ignore(_: object) -> None:
    """Do nothing: the listener of a stream until it gets another."""


class FramedStream(SocketStream):
    """Frames over a socket: `on_frames` gets each batch that arrived; `on_close` is called once."""

    def __init__(
        self,
        connection: socket.socket,
        on_frames: Callable[[list[bytes]], None],
        on_close: Callable[[str], None],
    ) -> None:
        super().__init__(connection, self._received, on_close)
        self._on_frames = on_frames
        self._frames = FrameReader()
        self._hold: Callable[[int], str] | None = None
        """Counts the bytes of incomplete frames; None: nobody bounds them."""
        self._held_bytes = 0
        self.is_at_fault = False
        """Whether it was closed because the peer sent a frame that is too long."""
        self._last_word: Callable[[int, int], bytes] | None = None

    def allow(
        self, frame_bytes_max: int, last_word: Callable[[int, int], bytes] | None = None
    ) -> None:
        """Accept frames of up to this size from now on.

        `last_word` makes the reply to a longer frame, from its length and the limit.
        """
        self._frames.bytes_max = frame_bytes_max
        self._last_word = last_word or self._last_word

    def bound(self, hold: Callable[[int], str]) -> None:
        """Limit the peer as a client, which passes no descriptors.

        `hold` gets the bytes of the incomplete frame, and returns why they are too many (empty:
        they are not); then the connection is closed.
        """
        self.descriptors_max = CLIENT_DESCRIPTORS_MAX
        self._hold = hold

    def unbound(self) -> None:
        """Lift the limits of a client: the connection is a link from now on."""
        if self._hold is not None:
            self._hold(0)
        self._hold = None
        self._last_word = None
        self._frames.bytes_max = FRAME_BYTES_MAX

    def redirect(
        self, on_frames: Callable[[list[bytes]], None], on_close: Callable[[str], None]
    ) -> None:
        """Replace both listeners."""
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
        if len(self._frames.held) != self._held_bytes:
            self._held_bytes = len(self._frames.held)
            if self._hold is not None and (why_not := self._hold(self._held_bytes)):
                self.is_at_fault = True
                self.close(why_not)
        if frames:
            self._on_frames(frames)

    def close(self, reason: str) -> None:
        """End the connection, and pass `reason` to `on_close`."""
        self._frames = FrameReader(0)  # the memory of an incomplete frame is freed at once
        if self._hold is not None:
            self._hold(0)
        super().close(reason)

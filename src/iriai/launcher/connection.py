"""One connection of a daemon: frames in, frames out, descriptors of streams beside them."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator
from typing import Annotated, NamedTuple, cast

import msgspec

from iriai.launcher.contract.messages import (
    FRAME_BYTES_MAX,
    FromLauncher,
    Launch,
    StartOrder,
    StreamEnds,
    Template,
    ToLauncher,
    UnreadTemplate,
)
from iriai.model.bounds import Many, decoded
from iriai.system.frames import FrameReader, FrameTooLong, frame


class _Parts(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A Launch whose templates are not decoded yet."""

    templates: Annotated[tuple[msgspec.Raw, ...], Many]
    orders: Annotated[tuple[StartOrder, ...], Many]


_parts: msgspec.msgpack.Decoder[_Parts] = msgspec.msgpack.Decoder(_Parts)
_template: msgspec.msgpack.Decoder[Template] = msgspec.msgpack.Decoder(Template)


def read_in_parts(payload: bytes | bytearray) -> Launch:
    """Decode a Launch, with `UnreadTemplate` for each template that cannot be read.

    Otherwise the daemon would order its tasks again on each new connection, for ever.

    Raises `msgspec.MsgspecError` if it is no Launch, or its orders cannot be read.
    """
    parts = decoded(_parts, payload)
    templates = tuple(map(_read, parts.templates))
    return Launch(cast("tuple[Template, ...]", templates), parts.orders)


def _read(raw: msgspec.Raw) -> Template | UnreadTemplate:
    try:
        return decoded(_template, bytes(raw))
    except msgspec.MsgspecError as error:
        return UnreadTemplate(f"its description cannot be read here: {error}")


RECEIVE_BYTES = 1 << 18
PIECES_A_TURN = 64
"""Pieces read before other events are handled."""
WAITING_BYTES_MAX = 64 << 20
"""Unsent bytes kept for a daemon that does not read; on its next connection it gets everything
again."""

_decoder: msgspec.msgpack.Decoder[ToLauncher] = msgspec.msgpack.Decoder(ToLauncher)
_encode = msgspec.msgpack.Encoder().encode


class PeerProblem(Exception):
    """The other side closed the connection or violates the protocol; the connection is over."""


class Passed(NamedTuple):
    """`StreamEnds`, with the descriptors that travel beside it."""

    message: StreamEnds
    descriptors: list[int]


class _Unsent:
    """Bytes to be sent, with copies of the descriptors that travel beside the first of them."""

    __slots__ = ("data", "descriptors")

    def __init__(self, data: bytearray, descriptors: list[int]) -> None:
        self.data = data
        self.descriptors = descriptors

    def close(self) -> None:
        """Close the copies: the receiver has its own, or nobody gets them."""
        while self.descriptors:
            os.close(self.descriptors.pop())


class BufferedSocket:
    """A non-blocking socket with its buffers."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._received: deque[bytes] = deque()
        self._waiting: deque[_Unsent] = deque()
        self._waiting_bytes = 0

    @property
    def fd(self) -> int:
        """Its descriptor, for epoll."""
        return self._socket.fileno()

    @property
    def is_waiting(self) -> bool:
        """Whether something could not be sent yet."""
        return bool(self._waiting)

    def receive(self) -> Iterator[ToLauncher]:
        """Read all that has arrived; yield each message.

        Raises `PeerProblem` after the messages that came before the problem.
        """
        for _ in range(PIECES_A_TURN):
            if not self._receive_piece():
                break
        yield from self._messages()
        if self._end:
            raise PeerProblem(self._end)

    def send(self, messages: list[FromLauncher | Passed]) -> None:
        """Send `messages`; keep what the socket does not take now. Raises `PeerProblem`."""
        try:
            self._queue(messages)
            while self._waiting:
                self._send_some(self._waiting[0])
        except BlockingIOError:
            pass
        except OSError as error:
            raise PeerProblem(f"cannot send: {error.strerror}") from error
        if self._waiting_bytes > WAITING_BYTES_MAX:
            raise PeerProblem("the daemon does not read its messages")

    def _queue(self, messages: list[FromLauncher | Passed]) -> None:
        data = bytearray()
        for message in messages:
            if isinstance(message, Passed):
                self._wait(data, [])
                self._wait(bytearray(frame(_encode(message.message))), message.descriptors)
                data = bytearray()
            else:
                data += frame(_encode(message))
        self._wait(data, [])

    def close(self) -> None:
        """Close the socket."""
        for each in self._waiting:
            each.close()
        self._socket.close()

    def _wait(self, data: bytearray, descriptors: list[int]) -> None:
        """Append `data` to what is to be sent; descriptors are copied, since they may be closed."""
        if data:
            self._waiting_bytes += len(data)
            self._waiting.append(_Unsent(data, [os.dup(fd) for fd in descriptors]))

    def _send_some(self, first: _Unsent) -> None:
        if first.descriptors:
            sent = socket.send_fds(self._socket, [first.data], first.descriptors)
            first.close()
        else:
            sent = self._socket.send(first.data)
        self._waiting_bytes -= sent
        del first.data[:sent]
        if not first.data:
            self._waiting.popleft()

    _end = ""
    """Why nothing more can be read; empty: it can."""

    def _receive_piece(self) -> bool:
        """Read once; return whether there may be more."""
        try:
            piece = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            raise PeerProblem(f"cannot receive: {error.strerror}") from error
        if not piece:
            self._end = "the connection was closed"
            return False
        try:
            self._received += self._frames.feed(piece)
        except FrameTooLong as error:
            self._end = str(error)
            return False
        return len(piece) == RECEIVE_BYTES

    def _messages(self) -> Iterator[ToLauncher]:
        while self._received:
            payload = self._received.popleft()
            try:
                try:
                    message = decoded(_decoder, payload)
                except msgspec.ValidationError:
                    message = read_in_parts(payload)
            except msgspec.MsgspecError as error:
                raise PeerProblem(f"a message cannot be read: {error}") from error
            yield message

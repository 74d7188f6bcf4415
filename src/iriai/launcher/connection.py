"""One connection of a daemon: frames in, with descriptors beside them, frames out."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from typing import Annotated, cast

import msgspec

from iriai.launcher.contract.messages import (
    FRAME_BYTES_MAX,
    FromLauncher,
    Launch,
    StartOrder,
    Template,
    ToLauncher,
    UnreadTemplate,
)
from iriai.model.bounds import Many, decoded
from iriai.system.closing import CLOSING
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
DESCRIPTORS_MAX = 253
"""As many as the kernel accepts in one message."""
WAITING_BYTES_MAX = 64 << 20
"""Unsent bytes kept for a daemon that does not read; on its next connection it gets everything
again."""

_decoder: msgspec.msgpack.Decoder[ToLauncher] = msgspec.msgpack.Decoder(ToLauncher)
_encode = msgspec.msgpack.Encoder().encode


class PeerProblem(Exception):
    """The other side closed the connection or violates the protocol; the connection is over."""


class BufferedSocket:
    """A non-blocking socket with its buffers."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._received: deque[bytes] = deque()
        self._waiting = bytearray()
        self._descriptors: deque[int] = deque()

    @property
    def fd(self) -> int:
        """Its descriptor, for epoll."""
        return self._socket.fileno()

    @property
    def is_waiting(self) -> bool:
        """Whether something could not be sent yet."""
        return bool(self._waiting)

    def receive(self) -> Iterator[tuple[ToLauncher, list[int]]]:
        """Read all that has arrived; yield each message with its descriptors.

        Raises `PeerProblem` after the messages that came before the problem.
        """
        for _ in range(PIECES_A_TURN):
            if not self._receive_piece():
                break
        yield from self._messages()
        if self._end:
            raise PeerProblem(self._end)

    def send(self, messages: list[FromLauncher]) -> None:
        """Send `messages`; keep what the socket does not take now. Raises `PeerProblem`."""
        for message in messages:
            self._waiting += frame(_encode(message))
        while self._waiting:
            try:
                sent = self._socket.send(self._waiting)
            except BlockingIOError:
                break
            except OSError as error:
                raise PeerProblem(f"cannot send: {error.strerror}") from error
            del self._waiting[:sent]
        if len(self._waiting) > WAITING_BYTES_MAX:
            raise PeerProblem("the daemon does not read its messages")

    def close(self) -> None:
        """Close the socket and the descriptors that were passed and not used."""
        for fd in self._descriptors:
            CLOSING.close(fd)
        self._descriptors.clear()
        CLOSING.close(self._socket.detach())

    _end = ""
    """Why nothing more can be read; empty: it can."""

    def _receive_piece(self) -> bool:
        """Read once; return whether there may be more."""
        try:
            piece, descriptors, _, _ = socket.recv_fds(
                self._socket, RECEIVE_BYTES, DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except OSError as error:
            raise PeerProblem(f"cannot receive: {error.strerror}") from error
        self._descriptors += descriptors
        if not piece:
            self._end = "the connection was closed"
            return False
        try:
            self._received += self._frames.feed(piece)
        except FrameTooLong as error:
            self._end = str(error)
            return False
        return len(piece) == RECEIVE_BYTES or bool(descriptors)

    def _messages(self) -> Iterator[tuple[ToLauncher, list[int]]]:
        while self._received:
            payload = self._received.popleft()
            try:
                try:
                    message = decoded(_decoder, payload)
                except msgspec.ValidationError:
                    message = read_in_parts(payload)
            except msgspec.MsgspecError as error:
                raise PeerProblem(f"a message cannot be read: {error}") from error
            yield message, self._descriptors_of(message)

    def _descriptors_of(self, message: ToLauncher) -> list[int]:
        if not self._descriptors or not isinstance(message, Launch):
            return []
        count = min(sum(order.descriptors for order in message.orders), len(self._descriptors))
        return [self._descriptors.popleft() for _ in range(count)]

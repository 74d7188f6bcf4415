"""One connection of a daemon: frames in, with descriptors beside them, frames out."""

from __future__ import annotations

import array
import socket
import struct
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
from iriai.model.bounds import Many
from iriai.model.decoding import decoded
from iriai.system.closing import CLOSING


class _Parts(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A Launch whose templates are not looked at yet."""

    templates: Annotated[tuple[msgspec.Raw, ...], Many]
    orders: Annotated[tuple[StartOrder, ...], Many]


_parts: msgspec.msgpack.Decoder[_Parts] = msgspec.msgpack.Decoder(_Parts)
_template: msgspec.msgpack.Decoder[Template] = msgspec.msgpack.Decoder(Template)


def read_in_parts(payload: bytes | bytearray) -> Launch:
    """The Launch in `payload`, with `UnreadTemplate` for what cannot be read.

    Without this, who ordered them would order them again on a new connection, and so for ever.

    Raises `msgspec.MsgspecError` where it is no Launch, or its orders cannot be read.
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
"""Read before anything else has its turn."""
DESCRIPTORS_MAX = 253
"""What the kernel takes in one message."""
WAITING_BYTES_MAX = 64 << 20
"""What may wait for a daemon that does not read; it hears everything again when it comes back."""
_PREFIX_BYTES = 4

_decoder: msgspec.msgpack.Decoder[ToLauncher] = msgspec.msgpack.Decoder(ToLauncher)
_encode = msgspec.msgpack.Encoder().encode


class PeerProblem(Exception):
    """The other side closed, or does not keep to the contract; the connection is over."""


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Process and user id of the other side, as the kernel knows them."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", found)
    return pid, uid


class BufferedSocket:
    """A non-blocking socket with its buffers."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._received = bytearray()
        self._waiting = bytearray()
        self._descriptors: deque[int] = deque()

    @property
    def fd(self) -> int:
        """To wait for."""
        return self._socket.fileno()

    @property
    def is_waiting(self) -> bool:
        """Whether something could not be sent yet."""
        return bool(self._waiting)

    def receive(self) -> Iterator[tuple[ToLauncher, list[int]]]:
        """Everything that is there: each message with the descriptors that belong to it.

        Raises `PeerProblem`, after what came before it.
        """
        for _ in range(PIECES_A_TURN):
            if not self._receive_piece():
                break
        yield from self._messages()
        if not self._is_open:
            raise PeerProblem("the connection was closed")

    def send(self, messages: list[FromLauncher]) -> None:
        """Send `messages`, or keep what the socket does not take now. Raises `PeerProblem`."""
        for message in messages:
            content = _encode(message)
            self._waiting += len(content).to_bytes(_PREFIX_BYTES, "big")
            self._waiting += content
        while self._waiting:
            try:
                sent = self._socket.send(self._waiting)
            except BlockingIOError:
                break
            except OSError as error:
                raise PeerProblem(f"cannot send: {error.strerror}") from error
            del self._waiting[:sent]
        if len(self._waiting) > WAITING_BYTES_MAX:
            raise PeerProblem("the daemon does not read what it is told")

    def close(self) -> None:
        """Close the socket and what was passed and not used."""
        for fd in self._descriptors:
            CLOSING.close(fd)
        self._descriptors.clear()
        CLOSING.close(self._socket.detach())

    _is_open = True

    def _receive_piece(self) -> bool:
        """Read once; whether there may be more."""
        room = socket.CMSG_SPACE(DESCRIPTORS_MAX * array.array("i").itemsize)
        try:
            piece, ancillary, _, _ = self._socket.recvmsg(
                RECEIVE_BYTES, room, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except OSError as error:
            raise PeerProblem(f"cannot receive: {error.strerror}") from error
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                self._descriptors.extend(numbers)
        if not piece:
            self._is_open = False
            return False
        self._received += piece
        return len(piece) == RECEIVE_BYTES or bool(ancillary)

    def _messages(self) -> Iterator[tuple[ToLauncher, list[int]]]:
        begin = 0
        received = self._received
        try:
            while len(received) - begin >= _PREFIX_BYTES:
                size = int.from_bytes(received[begin : begin + _PREFIX_BYTES], "big")
                if size > FRAME_BYTES_MAX:
                    raise PeerProblem(f"a frame of {size} bytes is larger than any of ours")
                end = begin + _PREFIX_BYTES + size
                if len(received) < end:
                    break
                payload = received[begin + _PREFIX_BYTES : end]
                try:
                    message = decoded(_decoder, payload)
                except msgspec.ValidationError:
                    message = read_in_parts(payload)
                begin = end
                yield message, self._descriptors_of(message)
        except msgspec.MsgspecError as error:
            raise PeerProblem(f"a message cannot be read: {error}") from error
        finally:
            del received[:begin]

    def _descriptors_of(self, message: ToLauncher) -> list[int]:
        if not self._descriptors or not isinstance(message, Launch):
            return []
        count = min(sum(order.descriptors for order in message.orders), len(self._descriptors))
        return [self._descriptors.popleft() for _ in range(count)]

"""Somebody at the client socket who sends whatever bytes they like."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from iriai.system.frames import FrameReader, frame
from iriai.wire.codec import decode_reply, request_frame
from iriai.wire.envelopes import Reply, Request, RequestBody
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Failure,
    Hello,
)
from tests.endtoend.installation import Installation, become
from tests.support.people import TestPerson

WAIT_S = 60.0


def nested(depth: int) -> bytes:
    """Lists within each other, as msgpack."""
    return b"\x91" * depth + b"\xc0"


class BadClient:
    """One connection."""

    def __init__(self, connected: socket.socket) -> None:
        self._reader = FrameReader()
        self._replies: list[Reply] = []
        self._numbers = 0
        self.socket = connected
        self.socket.settimeout(WAIT_S)

    def greet(self) -> Reply:
        """Be a client as any other, so far."""
        return self.ask(Hello(PROTOCOL_VERSION))

    def ask(self, body: RequestBody) -> Reply:
        """What a request is answered with."""
        self._numbers += 1
        self.send(request_frame(Request(self._numbers, body)))
        return self.reply()

    def ask_encoded(self, body: object) -> Reply:
        """The same for a request that our own messages cannot say."""
        self._numbers += 1
        self.send(frame(msgspec.msgpack.encode([self._numbers, body])))
        return self.reply()

    def send(self, content: bytes) -> None:
        """Any bytes; it may be that they are not read to their end."""
        with suppress(ConnectionError):
            self.socket.sendall(content)

    def send_unread(self, content: bytes) -> None:
        """As much as is taken by somebody who reads no answer meanwhile."""
        self.socket.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            self.socket.sendall(content)
        self.socket.settimeout(WAIT_S)

    def reply(self) -> Reply:
        """The next; raises `ConnectionError` where there is none."""
        while not self._replies:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("cut off")
            self._replies += map(decode_reply, self._reader.feed(data))
        return self._replies.pop(0)

    def last_word(self) -> Failure:
        """Why it is cut off; returns when it is."""
        word = self.reply()
        assert isinstance(word, Failure)
        with suppress(ConnectionError):
            unexpected = self.reply()
            raise AssertionError(f"it is still answered: {unexpected}")
        return word

    def forget_replies(self) -> int:
        """Drop what has come beside the last reply; how many that were."""
        count = len(self._replies)
        self._replies.clear()
        return count


@contextmanager
def bad_client(installation: Installation, person: TestPerson) -> Iterator[BadClient]:
    """A connection of `person`, who has said nothing yet."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_S)
        with become(person):
            connection.connect(installation.paths.daemon_socket)
        yield BadClient(connection)

"""A small server that speaks the wire protocol, and answers as a test tells it to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from iriai.model.problem import Problem
from iriai.system.frames import FrameReader
from iriai.wire.codec import decode_request, reply_frame
from iriai.wire.envelopes import Answer, AnswerBody, RequestBody
from iriai.wire.exchange import Done
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Failure,
    Hello,
    Notice,
    Progress,
    Welcome,
)

WELCOME = Welcome(PROTOCOL_VERSION, "ume", "/state", 1, "ann", False)


class Asking:
    """One request, with what came beside it."""

    def __init__(self, connection: socket.socket, number: int, body: RequestBody) -> None:
        self.body = body
        self._connection = connection
        self._number = number

    def notice(self, progress: Progress) -> None:
        """Tell progress before the answer."""
        self._connection.sendall(reply_frame(Notice(self._number, progress)))


Answering = Callable[[Asking], AnswerBody | None]
"""Answers; raises a `Problem` for a failure, and `HangUp` to close the connection."""


class HangUp(Exception):
    """Close the connection instead of answering."""


class Double:
    """The server; `received` are the requests after `Hello`."""

    def __init__(self, listener: socket.socket, answering: Answering, welcome: Welcome) -> None:
        self.received: list[RequestBody] = []
        self.connections = 0
        self._listener = listener
        self._answering = answering
        self._welcome = welcome
        self._open: list[socket.socket] = []

    def serve(self) -> None:
        """Take connections until the listener is shut down."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def hang_up(self) -> None:
        """Close every connection, as a daemon that dies does."""
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _attend(self, connection: socket.socket) -> None:
        frames = FrameReader()
        with connection:
            while True:
                try:
                    data = connection.recv(65_536)
                except OSError:
                    return
                if not data:
                    return
                try:
                    for payload in frames.feed(data):
                        self._take(connection, payload)
                except (HangUp, OSError):
                    return

    def _take(self, connection: socket.socket, payload: bytes) -> None:
        request = decode_request(payload)
        if isinstance(request.body, Hello):
            connection.sendall(reply_frame(Answer(request.number, self._welcome)))
            return
        self.received.append(request.body)
        asking = Asking(connection, request.number, request.body)
        try:
            answer = self._answering(asking)
        except Problem as problem:
            failure = Failure(
                request.number, problem.exit_code, problem.code, problem.message, problem.hint
            )
            connection.sendall(reply_frame(failure))
        else:
            if answer is not None:
                connection.sendall(reply_frame(Answer(request.number, answer)))


def done(_: Asking) -> AnswerBody:
    """There is nothing to say."""
    return Done()


@contextmanager
def double(
    state: Path, answering: Answering = done, welcome: Welcome = WELCOME
) -> Iterator[Double]:
    """A server for the state directory `state`, in threads of this process."""
    listener = socket.socket(socket.AF_UNIX)
    path = state / "daemon.sock"
    path.unlink(missing_ok=True)
    listener.bind(str(path))
    listener.listen()
    server = Double(listener, answering, welcome)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        server.hang_up()
        thread.join()

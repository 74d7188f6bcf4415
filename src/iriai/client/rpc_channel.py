"""Requests and their answers, paired by number, over one connection."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from iriai.model.problem import Problem, Refused, Unreachable, problem_from
from iriai.system.frames import FRAME_BYTES_MAX, FrameReader, FrameTooLong
from iriai.wire.client_codec import (
    NumberedAnswer,
    decode_answer,
    decode_numbered,
    numbered_frame,
)
from iriai.wire.exchange import ClientAnswer, ClientRequest, answer_kind
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    SAME_VERSION,
    Failure,
    Hello,
    Notice,
    Progress,
    Welcome,
)

READ_BYTES = 1 << 18
"""Bytes of one read: about as many as the kernel holds for a Unix socket."""
HELLO_WAIT_S = 10.0
"""Time for the daemon's greeting; with a hundred thousand jobs it takes a third of this."""
PIPELINE_BYTES = 1 << 18
"""Bytes of requests that are written at once: few system calls, and the daemon starts early."""

_A = TypeVar("_A", bound=ClientAnswer)


class ConnectionLost(Unreachable):
    """The connection ended before the answer; the daemon may have carried out the request."""


class NotIriai(Unreachable):
    """The process that listens on the socket does not speak the protocol of iriai."""


class Transport:
    """Frames over one blocking socket; for one thread at a time."""

    def __init__(self, connection: socket.socket, path: str) -> None:
        self.path = path
        """Path of the socket (or address), for messages."""
        self._socket = connection
        self._frames = FrameReader()

    def send(self, data: bytes) -> list[bytes]:
        """Send all of `data`; return the payloads of frames that arrived meanwhile.

        While the daemon accepts no more data, its frames are read, so that two full buffers cannot
        deadlock.

        Raises:
            ConnectionLost: the daemon closed the connection.
            Refused: the frame is longer than the daemon reads.
        """
        if len(data) > FRAME_BYTES_MAX:
            raise Refused(
                "too-long",
                f"a request of {len(data) >> 20} MiB is more than the {FRAME_BYTES_MAX >> 20} MiB "
                "that a daemon reads",
                "put large contents into files that the job reads",
            )
        arrived: list[bytes] = []
        view = memoryview(data)
        try:
            while view:
                try:
                    view = view[self._send_now(view) :]
                except BlockingIOError:
                    arrived += self._receive_while_full()
        except OSError as error:
            raise self._lost() from error
        return arrived

    def receive(self, timeout_s: float | None = None) -> list[bytes]:
        """Return the payloads of the next frames; none if `timeout_s` passes without any.

        Raises:
            ConnectionLost: the daemon closed the connection.
            NotIriai: the peer does not send frames.
        """
        if timeout_s is not None and not self._is_readable(timeout_s):
            return []
        while not (frames := self._read()):
            if timeout_s is not None:
                return []
        return frames

    def fileno(self) -> int:
        """Return the descriptor of the connection, for poll(2)."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive_while_full(self) -> list[bytes]:
        """Wait until the socket is readable or writable; return the payloads that arrived."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLOUT)
        [(_, events)] = poll.poll()
        return self._read() if events & select.POLLIN else []

    def _send_now(self, view: memoryview) -> int:
        """Send a part of `view`; return its size. Raise `BlockingIOError` if the buffer is full."""
        return self._socket.send(view, socket.MSG_DONTWAIT)

    def _receive_some(self) -> bytes:
        """Return available data, at least one byte; none at the end of the stream."""
        return self._socket.recv(READ_BYTES)

    def _is_readable(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _read(self) -> list[bytes]:
        try:
            data = self._receive_some()
        except OSError as error:
            raise self._lost() from error
        if not data:
            raise self._lost()
        try:
            return self._frames.feed(data)
        except FrameTooLong:
            raise foreign(self.path) from None

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(
            "daemon-gone",
            f"the daemon at {self.path} went offline before it answered",
            "see its jobs with 'iriai jobs'; if it does not come back, see log/daemon.log in "
            "its state directory",
        )


def foreign(path: str) -> NotIriai:
    """Return the problem with a process that does not speak the protocol."""
    return NotIriai(
        "not-iriai",
        f"the process that listens on {path} is not a daemon of iriai",
        "name another state directory with --state",
    )


class RpcChannel:
    """Requests and answers over one connection; for one thread at a time.

    The constructor sends the greeting. It raises `Unreachable` if no daemon answers in time or the
    peer is not a daemon of iriai, and the `Problem` with which the daemon refuses the client.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._number = 0
        self._answers: dict[int, msgspec.Raw | Problem] = {}
        self._listeners: dict[int, Callable[[Progress], None]] = {}
        self.welcome = self._greet()
        """The daemon's answer to the greeting: its version, name and state directory."""

    def ask(self, body: ClientRequest[_A]) -> _A:
        """Return the answer to `body`; raise the `Problem` with which the daemon refuses it."""
        answer: _A = self.finish(self.begin(body), answer_kind(type(body)))
        return answer

    def ask_many(self, bodies: Iterable[ClientRequest[Any]], kind: type[_A]) -> list[_A | Problem]:
        """Send all `bodies` without waiting for each answer; return the answers in their order."""
        numbers: list[int] = []
        chunk = bytearray()
        for body in bodies:
            self._number += 1
            numbers.append(self._number)
            chunk += numbered_frame(self._number, body)
            if len(chunk) >= PIPELINE_BYTES:
                self._receive(self._transport.send(bytes(chunk)))
                chunk.clear()
        self._receive(self._transport.send(bytes(chunk)))
        return [self._wait_for(number, kind) for number in numbers]

    def begin(
        self,
        body: ClientRequest[Any],
        on_notice: Callable[[Progress], None] | None = None,
    ) -> int:
        """Send `body`; return its number, for `finish` or `poll`."""
        self._number += 1
        if on_notice is not None:
            self._listeners[self._number] = on_notice
        frame = numbered_frame(self._number, body)
        self._receive(self._transport.send(frame))
        return self._number

    def finish(self, number: int, kind: type[_A]) -> _A:
        """Wait for the answer to the request `number`; raise the `Problem` that is the answer."""
        answer = self._wait_for(number, kind)
        if isinstance(answer, Problem):
            raise answer
        return answer

    def poll(self, number: int, kind: type[_A], timeout_s: float) -> _A | None:
        """As `finish`, but return None if the answer does not arrive within `timeout_s`."""
        if number not in self._answers:
            self._receive(self._transport.receive(timeout_s))
        return self.finish(number, kind) if number in self._answers else None

    def await_end(self) -> None:
        """Read until the daemon closes the connection, then raise `ConnectionLost`."""
        while True:
            self._receive(self._transport.receive())

    def fileno(self) -> int:
        """Return the descriptor of the connection, for poll(2)."""
        return self._transport.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _wait_for(self, number: int, kind: type[_A]) -> _A | Problem:
        while number not in self._answers:
            self._receive(self._transport.receive())
        answer = self._answers.pop(number)
        self._listeners.pop(number, None)
        if isinstance(answer, Problem):
            return answer
        try:
            return decode_answer(answer, kind)
        except msgspec.MsgspecError:
            raise foreign(self._transport.path) from None

    def _receive(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            try:
                reply = decode_numbered(payload)
            except msgspec.MsgspecError:
                raise foreign(self._transport.path) from None
            match reply:
                case NumberedAnswer(number, body):
                    self._answers[number] = body
                case Failure(0):  # the daemon refuses the connection
                    raise problem_of(reply)
                case Failure(number):
                    self._answers[number] = problem_of(reply)
                case Notice(number, body):
                    if listener := self._listeners.get(number):
                        listener(body)

    def _greet(self) -> Welcome:
        number = 1
        try:
            self.begin(Hello(PROTOCOL_VERSION))
            if number not in self._answers:
                self._receive(self._transport.receive(HELLO_WAIT_S))
        except ConnectionLost:
            self._read_refusal()
        if number not in self._answers:
            raise Unreachable(
                "daemon-silent",
                f"the process that listens on {self._transport.path} has not answered for "
                f"{HELLO_WAIT_S:.0f} s",
                "it may be stopped or overloaded: see log/daemon.log in its state directory",
            )
        welcome = self.finish(number, Welcome)
        if welcome.version != PROTOCOL_VERSION:
            raise Unreachable(
                "other-version",
                f"the daemon speaks version {welcome.version} of the protocol, this client "
                f"{PROTOCOL_VERSION}",
                SAME_VERSION,
            )
        return welcome

    def _read_refusal(self) -> None:
        """Raise the problem that the daemon sent before it closed the connection, if any."""
        with suppress(ConnectionLost):
            self._receive(self._transport.receive(0))
        raise Unreachable(
            "turned-away",
            f"the process that listens on {self._transport.path} closed the connection without "
            "an answer",
            "it has too many clients, or is not a daemon of iriai: try again, or name another "
            "state directory with --state",
        )


def problem_of(failure: Failure) -> Problem:
    """Return the problem in `failure`, as an instance of its family."""
    return problem_from(failure.exit_code, failure.code, failure.message, failure.hint)

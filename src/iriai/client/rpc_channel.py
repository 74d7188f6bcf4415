"""Requests and their answers, paired by number, over one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from iriai.client.transport import ConnectionLost, Transport, foreign
from iriai.model.problem import FAMILIES, ExitCode, Problem, Unreachable
from iriai.wire.codec import MalformedMessage, decode_reply, request_frame
from iriai.wire.exchange import ClientAnswer, ClientRequest, answer_kind
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    SAME_VERSION,
    Answer,
    AnswerBody,
    Failure,
    Hello,
    Notice,
    Progress,
    Request,
    RequestBody,
    Welcome,
)

HELLO_WAIT_S = 10.0
"""Time for the daemon's greeting; with a hundred thousand jobs it takes a third of this."""
PIPELINE_BYTES = 1 << 18
"""Bytes of requests that are written at once: few system calls, and the daemon starts early."""

_A = TypeVar("_A", bound=ClientAnswer)


class RpcChannel:
    """Requests and answers over one connection; for one thread at a time.

    The constructor sends the greeting. It raises `Unreachable` if no daemon answers in time or the
    peer is not a daemon of iriai, and the `Problem` with which the daemon refuses the client.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._number = 0
        self._answers: dict[int, AnswerBody | Problem] = {}
        self._listeners: dict[int, Callable[[Progress], None]] = {}
        self.welcome = self._greet()
        """The daemon's answer to the greeting: its version, name and state directory."""

    def ask(self, body: ClientRequest[_A]) -> _A:
        """Return the answer to `body`; raise the `Problem` with which the daemon refuses it."""
        answer: _A = self.finish(self.begin(body), answer_kind(type(body)))
        return answer

    def ask_many(self, bodies: Iterable[RequestBody], kind: type[_A]) -> list[_A | Problem]:
        """Send all `bodies` without waiting for each answer; return the answers in their order."""
        numbers: list[int] = []
        chunk = bytearray()
        for body in bodies:
            self._number += 1
            numbers.append(self._number)
            chunk += request_frame(Request(self._number, body))
            if len(chunk) >= PIPELINE_BYTES:
                self._receive(self._transport.send(bytes(chunk)))
                chunk.clear()
        self._receive(self._transport.send(bytes(chunk)))
        return [self._wait_for(number, kind) for number in numbers]

    def begin(
        self,
        body: RequestBody,
        descriptor: int | None = None,
        on_notice: Callable[[Progress], None] | None = None,
    ) -> int:
        """Send `body`; return its number, for `finish` or `poll`."""
        self._number += 1
        if on_notice is not None:
            self._listeners[self._number] = on_notice
        frame = request_frame(Request(self._number, body))
        self._receive(self._transport.send(frame, descriptor))
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
        if not isinstance(answer, kind):
            raise foreign(self._transport.path)
        return answer

    def _receive(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            try:
                reply = decode_reply(payload)
            except MalformedMessage:
                raise foreign(self._transport.path) from None
            match reply:
                case Answer(number, body):
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
    try:
        family = FAMILIES[ExitCode(failure.exit_code)]
    except (ValueError, KeyError):  # a newer daemon's family
        family = Problem
    return family(failure.code, failure.message, failure.hint)

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
"""A daemon that loads a hundred thousand jobs greets within a third of this."""
PIPELINE_BYTES = 1 << 18
"""What is gathered before it is written: few system calls, and the daemon begins early."""

_A = TypeVar("_A", bound=ClientAnswer)


class Conversation:
    """One connection on which requests are asked and answered; for one thread at a time.

    The constructor greets the daemon. Raises `Unreachable` where none answers in time or what
    answers is not ours, and whatever problem the daemon has with the one who asks.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._number = 0
        self._answers: dict[int, AnswerBody | Problem] = {}
        self._listeners: dict[int, Callable[[Progress], None]] = {}
        self.welcome = self._greet()
        """What the daemon said of itself."""

    def ask(self, body: ClientRequest[_A]) -> _A:
        """The answer to `body`. Raises the problem that the daemon has."""
        answer: _A = self.finish(self.begin(body), answer_kind(type(body)))
        return answer

    def ask_many(self, bodies: Iterable[RequestBody], kind: type[_A]) -> list[_A | Problem]:
        """The answers to all `bodies`, in their order; they are sent without waiting between."""
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
        """Send `body`; returns the number by which `finish` or `poll` has its answer."""
        self._number += 1
        if on_notice is not None:
            self._listeners[self._number] = on_notice
        frame = request_frame(Request(self._number, body))
        self._receive(self._transport.send(frame, descriptor))
        return self._number

    def finish(self, number: int, kind: type[_A]) -> _A:
        """Wait for the answer to the request `number`. Raises the problem that the daemon has."""
        answer = self._wait_for(number, kind)
        if isinstance(answer, Problem):
            raise answer
        return answer

    def poll(self, number: int, kind: type[_A], timeout_s: float) -> _A | None:
        """As `finish`, but None when nothing has come for `timeout_s`, or only notices."""
        if number not in self._answers:
            self._receive(self._transport.receive(timeout_s))
        return self.finish(number, kind) if number in self._answers else None

    def await_end(self) -> None:
        """Take what comes until the daemon closes the connection; raises `ConnectionLost` then."""
        while True:
            self._receive(self._transport.receive())

    def close(self) -> None:
        """End the connection."""
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
                case Failure(0):  # it does not talk to us at all
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
            self._last_words()
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

    def _last_words(self) -> None:
        """What a daemon said that closed the connection at once; raises in any case."""
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
    """The problem that crossed the socket, of the family it belongs to."""
    try:
        family = FAMILIES[ExitCode(failure.exit_code)]
    except (ValueError, KeyError):  # a newer daemon's family
        family = Problem
    return family(failure.code, failure.message, failure.hint)

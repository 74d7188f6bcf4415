"""Requests about job steps between machines: from where a client is to the home of the job.

A program of a job runs on another machine than its home, and starts steps there. Its daemon passes
the requests on, with the name of the user, for whom the home judges that machine (spec 011, section
8). What is passed on may be lost with a link: it is passed on again when that is back, and may
come twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Checkpoint, Pending
from iriai.daemon.loop.routes import Outgoing, StreamMessage
from iriai.daemon.requests.jobs.steps import StepHandlers
from iriai.daemon.server.connections import Handlers, RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.identity.users.permissions import Caller, Permissions
from iriai.model.ids import AttemptId, parse_rank
from iriai.model.instant import Instant
from iriai.model.problem import (
    NotFound,
    Problem,
    Refused,
    Unreachable,
    UsageProblem,
    problem_from,
)
from iriai.protocol.messages.effects import LinkUp, Part, Send
from iriai.protocol.messages.steps import PASSED_BYTES_MAX, StepAnswer, StepRequest
from iriai.wire.client_codec import (
    NumberedAnswer,
    decode_answer,
    decode_numbered,
    numbered_frame,
)
from iriai.wire.codec import MalformedMessage, decode_request, reply_frame
from iriai.wire.envelopes import Answer, AnswerBody
from iriai.wire.exchange import ClientAnswer, ClientRequest, answer_kind
from iriai.wire.requests import Failure, Progress
from iriai.wire.steps import (
    STILL_UNKNOWN,
    AwaitStep,
    EndStep,
    LeaveStep,
    NumberStep,
    OrderStep,
    ReadStep,
    WriteStep,
)

ANSWER_S = 25.0
"""Time without an answer, beyond what the request itself waits, after which the client is told."""
SETTLE_S = 10.0
"""After its begin a daemon may not know all machines of its cluster."""
OPEN_MAX = 4096
"""Requests of one machine that are being handled here, or of this one elsewhere."""
_HEADER_BYTES = 4
"""The length before a frame."""


class PassedRequest(RequestContext):
    """A request that another machine passed on; its answer goes back there."""

    __slots__ = ("_answer", "_engine")

    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        origin: str,
        size_bytes: int,
        answer: Callable[[Answer | Failure], None],
    ) -> None:
        self.number = 0
        self.caller = caller
        self.size_bytes = size_bytes
        self.is_changing = False
        self.origin = origin
        self._fails_alone = True
        self._handling = None
        self._engine = engine
        self._answer = answer

    def answer(self, body: AnswerBody) -> None:
        """Send the answer back."""
        self._answer(Answer(0, body))

    def notice(self, body: Progress) -> None:
        """Nothing that is passed on has any."""

    def fail(self, problem: Problem) -> None:
        """Send the failure back."""
        self._answer(Failure(0, *problem.fields))

    def resume(self) -> None:
        """Carry out the handler in a later turn."""
        self._engine.request(lambda _: self.resume_now())

    def resume_now(self) -> None:
        """Carry out the handler until it waits again."""
        while (suspension := self.advance()) is not None:
            if isinstance(suspension, Pending):
                suspension.then(self.resume_now if suspension.is_immediate else self.resume)
                return
            if isinstance(suspension, Checkpoint):
                self.resume()
                return


class _Passed:
    """A request of a client here that another machine is to answer."""

    def __init__(self, home: str, message: StepRequest) -> None:
        self.home = home
        self.message = message
        self.pending: Pending[bytes] = Pending()


class StepTransit:
    """Handler of requests about steps: handles those of this home, passes on the others."""

    def __init__(self, engine: Engine, users: Permissions, here: StepHandlers) -> None:
        self._engine = engine
        self._name = engine.machine.name
        self._users = users
        self._handlers: Handlers = here.handlers
        self._began_s = engine.steady_s()
        self._number = secrets.randbits(48)  # no answer to an earlier daemon is taken for one
        self._passed: dict[int, _Passed] = {}
        self._open: dict[str, int] = {}
        """How many requests of each other machine are being handled."""
        engine.routes.take(StreamMessage, self._receive)
        engine.routes.take(LinkUp, self._linked)

    @handles(NumberStep, OrderStep, AwaitStep, ReadStep, WriteStep, EndStep, LeaveStep)
    async def _ask(self, asked: RequestContext, body: ClientRequest[Any]) -> ClientAnswer:
        """Answer a client of this machine."""
        home = _home_of(body)
        if home == self._name:
            return await self._handlers[type(body)](asked, body)  # type: ignore[return-value]
        answer = await self._pass_on(asked, home, body)
        if isinstance(body, OrderStep):
            user, leave = asked.caller.person.name, LeaveStep(body.step)
            asked.connection.on_close.append(partial(self._left, home, user, leave))
        return answer

    def _left(self, home: str, user: str, leave: LeaveStep) -> None:
        """Tell the home that the client of a step is gone, if it can be reached."""
        self._send(home, user, leave)

    async def _pass_on(
        self, asked: RequestContext, home: str, body: ClientRequest[Any]
    ) -> ClientAnswer:
        is_known = any(each.name == home for each in self._engine.machine.peers)
        # A step that has its name is of a home that there was when it got it.
        if isinstance(body, NumberStep) and not is_known:
            has_just_begun = self._engine.steady_s() < self._began_s + SETTLE_S
            if self._engine.machine.cluster and has_just_begun:
                raise Unreachable(
                    STILL_UNKNOWN, f"this daemon has just begun, and does not know {home} yet"
                )
            raise NotFound(
                "no-such-job",
                f"no machine of this cluster is called {home}, as the home of that job is",
                f"ids of this machine's jobs begin with {self._name}-",
            )
        if len(self._passed) >= OPEN_MAX:
            raise Refused("too-many-steps", f"{OPEN_MAX} requests to other homes wait already")
        passed = self._send(home, asked.caller.person.name, body)
        number = passed.message.number
        self._passed[number] = passed
        wait_s = ANSWER_S + getattr(body, "wait_s", 0.0)
        lost = Unreachable("no-answer", f"{home}, the home of the job, has not answered")
        self._engine.later(wait_s, partial(passed.pending.fail, lost))
        try:
            payload = await passed.pending
        finally:
            del self._passed[number]
        return _read(payload, type(body), home)

    def _send(self, home: str, user: str, body: ClientRequest[Any]) -> _Passed:
        request = numbered_frame(0, body)[_HEADER_BYTES:]
        if len(request) > PASSED_BYTES_MAX:
            raise UsageProblem("too-long", f"the request has {len(request)} bytes", "send less")
        self._number += 1
        passed = _Passed(home, StepRequest(self._number, user, request))
        self._tell(home, passed.message)
        return passed

    # --- messages of other machines --------------------------------------------------------------

    def _receive(self, received: StreamMessage) -> None:
        message = received.message
        if isinstance(message, StepRequest):
            self._asked(received.sender, message)
        elif isinstance(message, StepAnswer):
            passed = self._passed.get(message.number)
            if passed is not None and passed.home == received.sender:
                passed.pending.resolve(message.answer)

    def _linked(self, event: LinkUp) -> None:
        """Pass on again what a machine may not have received."""
        for passed in self._passed.values():
            if passed.home == event.machine:
                self._tell(passed.home, passed.message)

    def _asked(self, sender: str, message: StepRequest) -> None:
        """Handle a request of another machine's client, in a turn."""

        def answer(reply: Answer | Failure) -> None:
            self._open[sender] -= 1
            if not self._open[sender]:
                del self._open[sender]
            content = reply_frame(reply)[_HEADER_BYTES:]
            self._tell(sender, StepAnswer(message.number, content))

        def begin(_now: Instant) -> None:
            try:
                caller = Caller(self._users.caller_named(message.user).person, operator=False)
                body = _decoded(message.request, self._handlers)
                if open_now > OPEN_MAX:
                    raise Refused("too-many-steps", f"{OPEN_MAX} requests of {sender} wait here")
            except Problem as problem:
                answer(Failure(0, *problem.fields))
                return
            asked = PassedRequest(self._engine, caller, sender, len(message.request), answer)
            asked.begin(self._handlers[type(body)](asked, body), fails_alone=body.fails_alone)
            asked.resume_now()

        open_now = self._open[sender] = self._open.get(sender, 0) + 1
        self._engine.request(begin)

    def _tell(self, machine: str, message: StepRequest | StepAnswer) -> None:
        self._engine.routes.tell(Outgoing([Send(machine, Part.STREAMS, message)]))


def _home_of(body: ClientRequest[Any]) -> str:
    if isinstance(body, NumberStep):
        return parse_rank(body.id).job.home
    step: AttemptId = body.step  # type: ignore[attr-defined]  # as all others have
    return step.home


def _decoded(request: bytes, handlers: Handlers) -> ClientRequest[Any]:
    """Return the request of another machine's client; raise a `Problem`."""
    try:
        body: ClientRequest[Any] = decode_request(request).body
    except MalformedMessage as error:
        raise UsageProblem("bad-request", f"this request is invalid: {error}") from None
    if type(body) not in handlers:
        raise UsageProblem("bad-request", "only requests about job steps are passed on")
    return body


def _read(payload: bytes, request: type[ClientRequest[Any]], home: str) -> ClientAnswer:
    """Return the answer of another home; raise the `Problem` that it is."""
    try:
        reply = decode_numbered(payload)
        if isinstance(reply, NumberedAnswer):
            answer: ClientAnswer = decode_answer(reply.body, answer_kind(request))
            return answer
    except MalformedMessage:
        reply = None
    if isinstance(reply, Failure):
        raise problem_from(reply.exit_code, reply.code, reply.message, reply.hint)
    raise Unreachable("no-answer", f"{home} gave an answer that is none")

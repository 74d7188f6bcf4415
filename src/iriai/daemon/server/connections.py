"""Connections of clients: identity, ordered requests, ordered answers."""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from iriai.config.limits import LimitsSection
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.request_scheduling import Arrivals, ServiceTurns
from iriai.daemon.transport.socket_stream import FramedStream, close_descriptors, ignore, unbounded
from iriai.identity.users.permissions import Caller
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Refused, UsageProblem
from iriai.policy.service.connection_limits import Allowance, ConnectionLimits
from iriai.system.internal_errors import FAULTS
from iriai.wire.codec import MalformedMessage, decode_request, number_of, reply_frame
from iriai.wire.exchange import ClientRequest
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Answer,
    AnswerBody,
    Failure,
    Hello,
    Notice,
    Progress,
    Reply,
    Request,
    RequestBody,
)

if TYPE_CHECKING:
    from iriai.daemon.transport.tls_stream import FrameStream

log = logging.getLogger(__name__)

HELLO_BYTES_MAX = 4096
"""Of a frame before `Hello` was taken, which has some ten bytes."""
REQUEST_BYTES_MAX = 40 << 20
"""Of a request: the largest has a script and a standard input of 16 MiB each, and an environment.
A listing that is answered may be longer."""
COUNTED_BYTES = 4096
"""A request counts once, and once more for each so many bytes, against its user's rate."""
UNSENT_BYTES_MAX = 1 << 20
"""Of answers on one connection: who does not read them is asked nothing more for."""


@dataclass(slots=True)
class RequestContext:
    """One request of one client, and how to answer it."""

    connection: ClientSession
    number: int
    caller: Caller
    descriptors: list[int] = field(default_factory=list)
    """What came with it, and nobody has taken yet: closed when it is answered."""
    size_bytes: int = 0
    """As it came."""
    is_changing: bool = False
    """Whether the handler has begun to change a core: from there on an error of ours leaves it in
    doubt."""

    def answer(self, body: AnswerBody) -> None:
        """Answer now."""
        close_descriptors(self.descriptors)
        self.connection.reply(Answer(self.number, body))

    def answer_with(self, make: Callable[[], AnswerBody]) -> None:
        """Answer with what `make` returns, or with the `Problem` that it raises."""
        try:
            body = make()
        except Problem as problem:
            self.fail(problem)
        except Exception as error:  # noqa: BLE001 - it only looked: nobody else is concerned
            self.fail(_fault(error))
        else:
            self.answer(body)

    def go_on(self, steps: Steps) -> None:
        """Have `steps` carried out in turns to come, as the user's other requests are."""
        self.connection.go_on(self, steps)

    def notice(self, body: Progress) -> None:
        """Tell news; the answer is still to come."""
        self.connection.reply(Notice(self.number, body))

    def fail(self, problem: Problem) -> None:
        """Say what was wrong."""
        close_descriptors(self.descriptors)
        self.connection.reply(
            Failure(self.number, problem.exit_code, problem.code, problem.message, problem.hint)
        )
        self.connection.mistaken()

    def detach_descriptors(self) -> list[int]:
        """What came with it; whoever takes it closes it."""
        taken, self.descriptors = self.descriptors, []
        return taken


Steps = Iterator[None]
"""Work that takes long, done piece by piece: others are served in between."""

Handler = Callable[[RequestContext, Any, Instant], Steps | None]
"""Answers through its context, now or later; raises a `Problem`, which is answered as a failure.
What it returns is carried out before the next request of the same connection."""


Handlers = dict[type[ClientRequest[Any]], Handler]
"""The handler of each request that one may ask."""


class ClientSession:
    """One client."""

    def __init__(
        self,
        clients: Clients,
        caller: Caller,
        handlers: Handlers,
        stream: FrameStream,
        mistakes_max: int | None = None,
    ) -> None:
        """`mistakes_max` requests may fail before the client is cut off; None: any number."""
        self._is_of(caller)
        self.handlers = handlers
        """Of what it may ask."""
        self.on_close: list[Callable[[], None]] = []
        """Called once when the client is gone."""
        self.is_gone = False
        self._clients = clients
        self._is_greeted = False
        self._payloads: deque[bytes] = deque()
        """Requests that came, and were not begun yet."""
        self._steps: deque[tuple[RequestContext, Steps]] = deque()
        """What goes on before them."""
        self._is_ready = False
        self._is_clogged = False
        """Whether what was answered is not read."""
        self._unsent: list[bytes] = []
        self._unsent_counted_bytes = 0
        self._mistakes_left = mistakes_max
        self._stream = stream
        stream.redirect(self._frames, self._closed)
        stream.drains_to(self._count_unsent)

    @property
    def is_greeted(self) -> bool:
        """Whether it has said `Hello`."""
        return self._is_greeted

    def become(self, caller: Caller, handlers: Handlers) -> None:
        """The client has shown who it is, and may ask more; raises where they have too many."""
        self._clients.changes(self, caller)
        self._clients.unsent(self, -self._unsent_counted_bytes)
        self._unsent_counted_bytes = 0
        self._is_of(caller)
        self.handlers = handlers
        self._mistakes_left = None

    def _is_of(self, caller: Caller) -> None:
        self.caller = caller
        self.user = caller.person.name
        """Whose connection it is."""
        self.is_operator = caller.operator
        """Whether it is an operator's."""

    def mistaken(self) -> None:
        """A request failed."""
        if self._mistakes_left is not None:
            self._mistakes_left -= 1
            if self._mistakes_left <= 0:
                self.flush()
                self.close("too many requests that were refused")

    def reply(self, reply: Reply) -> None:
        """Send a reply; those of one turn go out together."""
        if not self._unsent:
            self._clients.flush_later(self)
        self._unsent.append(reply_frame(reply))

    def flush(self) -> None:
        """Send what has gathered."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._stream.write(data)
        if self._stream.unsent_bytes:
            self._count_unsent()

    def close(self, reason: str) -> None:
        """End the connection."""
        self._stream.close(reason)

    def hand_over(self) -> FramedStream:
        """Answer what was asked, and be no client's any more: the stream is the caller's."""
        if not isinstance(self._stream, FramedStream):
            raise Refused("no-link", "only a Unix socket becomes a link in this way")
        self.flush()
        self._payloads.clear()
        self._clients.disconnected(self)
        self._stream.unbound()
        self._stream.resume()
        return self._stream

    def _malformed(self, payload: bytes, error: Exception) -> None:
        """What is no request costs the request; and the connection, where not even that is one."""
        number = number_of(payload) if self._is_greeted else None
        problem = UsageProblem(
            "bad-request",
            f"this request is invalid: {error}",
            "use the version of iriai that the daemon runs; a program of your own must keep "
            "the bounds",
        )
        if number is not None:
            RequestContext(self, number, self.caller).fail(problem)
            return
        self.reply(Failure(0, problem.exit_code, problem.code, problem.message, problem.hint))
        self.flush()
        self._payloads.clear()
        self.close(f"not a request: {error}")

    # --- what the client asked, in turns ---------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether there is something that can be done now."""
        return bool(self._steps or self._payloads) and not self._is_clogged

    def go_on(self, asked: RequestContext, steps: Steps) -> None:
        """Carry out `steps` before what else was asked."""
        self._steps.append((asked, steps))
        self._ready()

    def work(self, until_s: float, requests_max: int, now: Instant) -> int:
        """Do some of what was asked, until `until_s`; returns how many requests were begun."""
        begun = 0
        while True:
            if self._steps:
                self._step(until_s)
            elif self._payloads and begun < requests_max:
                payload = self._payloads.popleft()
                begun += 1 + len(payload) // COUNTED_BYTES
                try:
                    request = decode_request(payload)
                except MalformedMessage as error:
                    self._malformed(payload, error)
                else:
                    self._handle(request, len(payload), now)
            else:
                break
            if perf_counter() >= until_s:
                break
        return begun

    def _step(self, until_s: float) -> None:
        """Go on with the first thing that takes long."""
        asked, steps = self._steps.popleft()
        try:
            for _ in steps:
                if perf_counter() >= until_s:
                    self._steps.appendleft((asked, steps))
                    return
        except Problem as problem:
            asked.fail(problem)

    def rest(self) -> None:
        """All is done that can be."""
        self._is_ready = False
        if self.is_gone:
            self._clients.disconnected(self)
        elif not self._is_clogged:
            self._stream.resume()

    def pause(self) -> None:
        """The client is to ask for nothing more until this connection rests."""
        self._stream.pause()

    def _frames(self, frames: list[bytes]) -> None:
        self._payloads.extend(frames)
        self._ready()

    def _ready(self) -> None:
        if not self._is_ready and not self._is_clogged:
            self._is_ready = True
            self._clients.turns.ready(self)

    def _count_unsent(self) -> None:
        """What was answered is not read, or is not any more: nothing is done for it meanwhile."""
        unsent_bytes = self._stream.unsent_bytes
        more, self._unsent_counted_bytes = unsent_bytes - self._unsent_counted_bytes, unsent_bytes
        self._clients.unsent(self, more)
        if self.is_gone:
            return
        self._is_clogged = unsent_bytes > UNSENT_BYTES_MAX
        if self._is_clogged:
            self._stream.pause()
        elif self.has_work:
            self._ready()
        else:
            self._stream.resume()

    def _handle(self, request: Request, size_bytes: int, now: Instant) -> None:
        descriptors: list[int] = []
        wanted = getattr(request.body, "descriptors", 0)
        if wanted:
            descriptors = self._stream.descriptors[:wanted]
            del self._stream.descriptors[:wanted]
        asked = RequestContext(self, request.number, self.caller, descriptors, size_bytes)
        if len(descriptors) < wanted and not isinstance(self._stream, FramedStream):
            asked.fail(
                UsageProblem(
                    "no-descriptor",
                    "a terminal or standard input cannot be passed over a network",
                    "use 'submit', or run the command on that machine",
                )
            )
            return
        if not self._is_greeted and not isinstance(request.body, Hello):
            asked.fail(UsageProblem("no-hello", "the first request must be Hello"))
            return
        if isinstance(request.body, Hello):
            self._is_greeted = request.body.version == PROTOCOL_VERSION
            if self._is_greeted and isinstance(self._stream, FramedStream):
                self._stream.allow(REQUEST_BYTES_MAX)
        self._clients.request(asked, request.body, now)

    def _closed(self, reason: str) -> None:
        self.is_gone = True
        self._clients.unsent(self, -self._unsent_counted_bytes)
        self._unsent_counted_bytes = 0
        self._is_clogged = False
        if self.has_work:
            self._ready()  # what was asked is carried out all the same
        else:
            self._clients.disconnected(self)
        for callback in self.on_close:
            callback()


class Clients:
    """All connections of clients."""

    def __init__(
        self,
        engine: Engine,
        identify: Callable[[socket.socket], Caller],
        handlers: Handlers,
        role: str,
        limits: LimitsSection,
    ) -> None:
        """`role` says which parts the machine has, for requests that nobody here handles."""
        self._role = role
        self._limits = limits
        self._limits_of_connections = ConnectionLimits(limits)
        self._unfinished = Allowance(
            "unfinished_bytes_per_user",
            "bytes of unfinished requests",
            limits.unfinished_bytes_per_user,
        )
        self._unsent = Allowance(
            "unsent_bytes_per_user", "bytes of unread answers", limits.unsent_bytes_per_user
        )
        self.turns = ServiceTurns(engine, limits)
        self._silent: dict[ClientSession, float] = {}
        """Who has not been heard yet, and until when (steady); the first to be closed first."""
        self._is_watching = False
        self._engine = engine
        self._arrivals = Arrivals(
            engine, identify, self._limits_of_connections, limits, self._arrived
        )
        self._handlers = handlers
        self._connections: dict[ClientSession, None] = {}
        self._to_flush: list[ClientSession] = []

    def accept(self, listener: socket.socket) -> float:
        """Take the connections that wait at `listener`; returns how long to take no more (s)."""
        return self._arrivals.accept(listener)

    def limits(self) -> dict[str, dict[str, int]]:
        """How often each user was refused or slowed, by limit; kept up to date."""
        return {
            "connections": self._limits_of_connections.refusals,
            "connects_per_s": self._arrivals.slowed,
            "requests_per_s": self.turns.slowed,
            **{each.key: each.refusals for each in (self._unfinished, self._unsent)},
            self._limits_of_connections.per_user.key: self._limits_of_connections.per_user.refusals,
        }

    def _arrived(self, connection: socket.socket, caller: Caller) -> None:
        stream = FramedStream(connection, ignore, ignore)
        stream.allow(HELLO_BYTES_MAX, _too_long)
        if not caller.operator:
            stream.bound(self.hold_for(caller))
        self.serve(stream, caller, self._handlers)

    def serve(
        self,
        stream: FrameStream,
        caller: Caller,
        handlers: Handlers,
        mistakes_max: int | None = None,
    ) -> None:
        """Serve the client at the other end of `stream`.

        A `caller` without a name does not count against the limit of connections: the acceptor
        limits the number of those.
        """
        connection = ClientSession(self, caller, handlers, stream, mistakes_max)
        self._connections[connection] = None
        self._silent[connection] = self._engine.steady_s() + self._limits.hello_s
        self._watch()

    def changes(self, connection: ClientSession, caller: Caller) -> None:
        """A connection is to be counted for another user; raises where they have too many."""
        before, now = connection.user, caller.person.name
        if before:
            refusal = self._limits_of_connections.become(before, now, is_operator=caller.operator)
        else:
            refusal = self._limits_of_connections.enter(now, is_operator=caller.operator)
        if refusal:
            raise refusal

    def hold_for(self, caller: Caller) -> Callable[[int], str]:
        """Counts what a connection of `caller` holds of a frame, and says why not so much."""
        unfinished, user, counted = self._unfinished, caller.person.name, 0

        def hold(held_bytes: int) -> str:
            nonlocal counted
            more, counted = held_bytes - counted, held_bytes
            if more <= 0:
                if more:
                    unfinished.give_back(user, -more)
                return ""
            has_room = unfinished.has_room(user, more)
            unfinished.add(user, more)
            return "" if has_room else f"{unfinished.what} of {user}: {unfinished.key} is less"

        if caller.operator:
            return unbounded
        return hold

    def _watch(self) -> None:
        """Look again when the next is due that has said nothing."""
        if self._silent and not self._is_watching:
            self._is_watching = True
            due_s = next(iter(self._silent.values()))
            self._engine.later(max(0.0, due_s - self._engine.steady_s()), self._close_silent)

    def _close_silent(self) -> None:
        self._is_watching = False
        now_s = self._engine.steady_s()
        for connection, due_s in list(self._silent.items()):
            if due_s > now_s:
                break
            del self._silent[connection]
            if not connection.is_greeted:
                connection.close(f"it has sent nothing for {self._limits.hello_s:g} s")
        self._watch()

    def request(self, asked: RequestContext, body: RequestBody, now: Instant) -> None:
        """Handle a request."""
        try:
            handler = asked.connection.handlers.get(type(body))
            if handler is None:
                raise self._elsewhere()
            steps = handler(asked, body, now)
        except Problem as problem:
            asked.fail(problem)
        except Exception as error:
            if asked.is_changing or not body.fails_alone:
                raise
            asked.fail(_fault(error))
        else:
            if steps is not None:
                asked.go_on(_alone(asked, steps) if body.fails_alone else steps)

    def unsent(self, connection: ClientSession, more_bytes: int) -> None:
        """So much more of what was answered waits for whoever asked, or (negative) less."""
        user = connection.user
        if more_bytes > 0:
            has_room = connection.is_operator or self._unsent.has_room(user, more_bytes)
            self._unsent.add(user, more_bytes)
            if not has_room:
                connection.close(f"{user} does not read the answers")
        elif more_bytes < 0:
            self._unsent.give_back(user, -more_bytes)

    def _elsewhere(self) -> Refused:
        return Refused(
            "no-such-part",
            f"this machine cannot answer that: {self._role}",
            "ask the front end",
        )

    def disconnected(self, connection: ClientSession) -> None:
        """A connection is no client's any more."""
        if connection in self._connections:
            del self._connections[connection]
            self._silent.pop(connection, None)
            if connection.user:
                self._limits_of_connections.leave(connection.user)

    def flush_later(self, connection: ClientSession) -> None:
        """Have the connection flushed at the end of this round of the event loop."""
        if not self._to_flush:
            self._engine.soon(self._flush)
        self._to_flush.append(connection)

    def close(self) -> None:
        """Flush and end all connections."""
        self._flush()
        self._arrivals.close()
        for connection in list(self._connections):
            connection.close("the daemon ends")

    def _flush(self) -> None:
        to_flush, self._to_flush = self._to_flush, []
        for connection in to_flush:
            connection.flush()


def _too_long(length: int, bytes_max: int) -> bytes:
    """The last word to a client that sends a longer frame than it may."""
    failure = Failure(
        0,
        UsageProblem.exit_code,
        "too-long",
        f"the request has {length} bytes; the limit is {bytes_max}",
        "put long scripts and inputs into files that the job reads",
    )
    return reply_frame(failure)


def _alone(asked: RequestContext, steps: Steps) -> Steps:
    """`steps` of a request that may fail alone: an error of ours is told to whoever asked."""
    try:
        yield from steps
    except Problem:
        raise
    except Exception as error:
        if asked.is_changing:
            raise
        asked.fail(_fault(error))


def _fault(error: Exception) -> Problem:
    """What is told of an error of ours that concerns nobody but who asked."""
    return Problem(
        "internal",
        FAULTS.note("a request", error),
        "please report it, with log/daemon.log of the state directory",
    )

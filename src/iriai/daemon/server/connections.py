"""Connections of clients: identity, ordered requests, ordered answers."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Checkpoint, Pending, Suspension
from iriai.daemon.server.request_scheduling import Arrivals, ServiceTurns
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.transport.socket_stream import FramedStream, ignore
from iriai.identity.users.permissions import Caller
from iriai.model.instant import Instant
from iriai.model.problem import NotAllowed, Problem, Refused, UsageProblem
from iriai.policy.service.allowances import ConnectionLimits, HeldBytes
from iriai.system.internal_errors import FAULTS
from iriai.wire.codec import MalformedMessage, decode_request, number_of, reply_frame
from iriai.wire.envelopes import Answer, AnswerBody, Reply, Request, RequestBody
from iriai.wire.exchange import COUNTED_BYTES, RESTRICTED, ClientAnswer, ClientRequest
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    SAME_VERSION,
    Failure,
    Hello,
    Notice,
    Progress,
    Welcome,
)

if TYPE_CHECKING:
    from iriai.daemon.transport.tls_stream import FrameStream

log = logging.getLogger(__name__)

HELLO_BYTES_MAX = 4096
"""Of a frame before `Hello` was taken, which has some ten bytes."""
REQUEST_BYTES_MAX = 40 << 20
"""Of a request: the largest has a script and a standard input of 16 MiB each, and an environment.
A listing that is answered may be longer."""
UNSENT_BYTES_MAX = 1 << 20
"""Of answers on one connection: who does not read them is asked nothing more for."""


class RequestContext:
    """One request of one client, whose handler is carried out step by step."""

    __slots__ = (
        "_fails_alone",
        "_handling",
        "caller",
        "connection",
        "is_changing",
        "number",
        "origin",
        "size_bytes",
    )

    def __init__(
        self,
        connection: ClientSession,
        number: int,
        caller: Caller,
        size_bytes: int = 0,
        origin: str = "",
    ) -> None:
        self.connection = connection
        self.number = number
        self.caller = caller
        self.size_bytes = size_bytes
        """As it came."""
        self.origin = origin
        """The machine that passed it on; empty: its client is connected here."""
        self.is_changing = False
        """Whether the handler has begun to change a core: an internal error then leaves the core in
        doubt."""
        self._fails_alone = True
        self._handling: Handling | None = None

    def begin(self, handling: Handling, *, fails_alone: bool) -> None:
        """Set what `advance` carries out; see `ClientRequest.fails_alone`."""
        self._handling = handling
        self._fails_alone = fails_alone

    def advance(self) -> Suspension | None:
        """Carry out the handler until it waits; return where. None: it is over, and answered.

        This is the one place where what a handler raises becomes the answer.
        """
        if self._handling is None:
            return None
        try:
            suspension: Suspension = self._handling.send(None)
        except StopIteration as end:
            if end.value is not None:
                self.answer(end.value)
        except Problem as problem:
            self.fail(problem)
        except Exception as error:
            if self.is_changing or not self._fails_alone:
                raise
            self.fail(_fault(error))
        else:
            return suspension
        return None

    def resume(self) -> None:
        """Carry out the handler in a later turn, as the user's other requests are."""
        self.connection.resume(self)

    def resume_now(self) -> None:
        """Carry out the handler at once; it touches no core before its next checkpoint."""
        self.connection.resume_now(self)

    def abandon(self) -> None:
        """End the handler where it waits: nobody is there to be answered."""
        handling, self._handling = self._handling, None
        if handling is not None:
            handling.close()

    def answer(self, body: AnswerBody) -> None:
        """Send the answer."""
        self.connection.reply(Answer(self.number, body))

    def notice(self, body: Progress) -> None:
        """Send progress; the answer follows later."""
        self.connection.reply(Notice(self.number, body))

    def fail(self, problem: Problem) -> None:
        """Send a failure as the answer."""
        self.connection.reply(Failure(self.number, *problem.fields))
        self.connection.mistaken()


Handling = Coroutine[Any, Any, ClientAnswer | None]
"""A handler of one request that has begun; it suspends at `Suspension`."""

Handler = Callable[[RequestContext, Any], Handling]
"""Returns the answer (None: it has answered and handed the connection over), or raises a `Problem`,
which is answered as a failure. It awaits nothing but
`Pending` and `checkpoint`. Up to the first `Pending` it is carried out before the next request of
the same connection."""


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
        self._clients = clients
        self._is_of(caller)
        self.handlers = handlers
        """Of what it may ask."""
        self.on_close: list[Callable[[], None]] = []
        """Called once when the client has disconnected."""
        self.is_gone = False
        self.is_greeted = False
        """Whether it has sent `Hello`."""
        self._has_met = False
        self._payloads: deque[bytes] = deque()
        """Requests that were not begun yet."""
        self._begun: deque[RequestContext] = deque()
        """Requests that were begun and can go on; they go first."""
        self._is_ready = False
        self._is_clogged = False
        """Whether the client does not read its answers."""
        self._unsent: list[bytes] = []
        self._mistakes_left = mistakes_max
        self._stream = stream
        stream.redirect(self._frames, self._closed)
        stream.drains_to(self._count_unsent)

    @property
    def is_local(self) -> bool:
        """Whether the client is on this machine, so that a closed connection is its end."""
        return isinstance(self._stream, FramedStream)

    def become(self, caller: Caller, handlers: Handlers) -> None:
        """Make it an authenticated client; raise `Problem` if the user has too many connections."""
        name, is_operator = caller.person.name, caller.operator
        refusal = self._clients.room.become(self.user, name, is_operator=is_operator)
        if refusal:
            raise refusal
        self._unread.hold(0)
        self._is_of(caller)
        self.handlers = handlers
        self._mistakes_left = None

    def _is_of(self, caller: Caller) -> None:
        self.caller = caller
        self.user = caller.person.name
        """Whose connection it is."""
        self.is_operator = caller.operator
        """Whether it is an operator's."""
        unsent = self._clients.room.unsent
        self._unread = HeldBytes(unsent, self.user, is_operator=caller.operator)

    def mistaken(self) -> None:
        """Count a failed request."""
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
        """Send the collected replies."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._stream.write(data)
        if self._stream.unsent_bytes:
            self._count_unsent()

    def close(self, reason: str) -> None:
        """End the connection."""
        self._stream.close(reason)

    def hand_over(self) -> FramedStream:
        """Send the collected replies, and return the stream, which becomes a link."""
        if not isinstance(self._stream, FramedStream):
            raise Refused("no-link", "only a Unix socket becomes a link in this way")
        self.flush()
        self._payloads.clear()
        self._clients.disconnected(self)
        self._stream.unbound()
        self._stream.resume()
        return self._stream

    def _malformed(self, payload: bytes, error: Exception) -> None:
        """Refuse a malformed request; close the connection if it has no number either."""
        number = number_of(payload) if self.is_greeted else None
        problem = UsageProblem(
            "bad-request",
            f"this request is invalid: {error}",
            "use the version of iriai that the daemon runs; a program of your own must keep "
            "the bounds",
        )
        if number is not None:
            RequestContext(self, number, self.caller).fail(problem)
            return
        self.reply(Failure(0, *problem.fields))
        self.flush()
        self._payloads.clear()
        self.close(f"not a request: {error}")

    # --- requests, in turns ----------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether a request can be handled now."""
        return bool(self._begun or self._payloads) and not self._is_clogged

    def resume(self, asked: RequestContext) -> None:
        """Carry out a request that was begun before the next one."""
        self._begun.append(asked)
        self._ready()

    def resume_now(self, asked: RequestContext) -> None:
        """Carry out a request that was begun at once, up to its next checkpoint."""
        self._carry_out(asked, 0.0)
        if self._begun:
            self._ready()

    def work(self, until_s: float, requests_max: int, now: Instant) -> int:
        """Handle requests until `until_s`; return how many were begun."""
        begun = 0
        while True:
            if self._begun:
                self._carry_out(self._begun.popleft(), until_s)
            elif self._payloads and begun < requests_max:
                payload = self._payloads.popleft()
                try:
                    request = decode_request(payload)
                except MalformedMessage as error:
                    begun += 1 + len(payload) // COUNTED_BYTES
                    self._malformed(payload, error)
                else:
                    begun += 1 + len(payload) // request.body.counted_bytes
                    self._handle(request, len(payload), until_s)
            else:
                break
            if perf_counter() >= until_s:
                break
        return begun

    def _carry_out(self, asked: RequestContext, until_s: float) -> None:
        """Carry out a request until it is over or waits, or it is `until_s` at a checkpoint."""
        while (suspension := asked.advance()) is not None:
            if isinstance(suspension, Pending):
                suspension.then(asked.resume_now if suspension.is_immediate else asked.resume)
                return
            if not isinstance(suspension, Checkpoint):
                raise TypeError(f"a handler of requests cannot await {suspension!r}")
            if perf_counter() >= until_s:
                self._begun.appendleft(asked)
                return

    def rest(self) -> None:
        """Read on: all requests that can be handled are."""
        self._is_ready = False
        if self.is_gone:
            self._clients.disconnected(self)
        elif not self._is_clogged:
            self._stream.resume()

    def pause(self) -> None:
        """Read nothing more until `rest`."""
        self._stream.pause()

    def _frames(self, frames: list[bytes]) -> None:
        self._payloads.extend(frames)
        if not self._has_met:
            self._has_met = True
            self._meet()
        if self._payloads:
            self._ready()

    def _meet(self) -> None:
        """Answer the first frame at once if it is `Hello`, which needs no turn of the cores.

        Further ones, as after a refused version, have their turns, and count against rates.
        """
        payload = self._payloads[0]
        try:
            request = decode_request(payload)
        except MalformedMessage:
            return  # refused in its turn
        if isinstance(request.body, Hello):
            del self._payloads[0]
            self._handle(request, len(payload), inf)

    def _ready(self) -> None:
        if not self._is_ready and not self._is_clogged:
            self._is_ready = True
            self._clients.turns.ready(self)

    def _count_unsent(self) -> None:
        """Count unsent bytes; with too many, handle no requests until the client reads."""
        unsent_bytes = self._stream.unsent_bytes
        if self._unread.hold(unsent_bytes):
            self.close(f"{self.user} does not read the answers")
        if self.is_gone:
            return
        self._is_clogged = unsent_bytes > UNSENT_BYTES_MAX
        if self._is_clogged:
            self._stream.pause()
        elif self.has_work:
            self._ready()
        else:
            self._stream.resume()

    def _handle(self, request: Request, size_bytes: int, until_s: float) -> None:
        body = request.body
        asked = RequestContext(self, request.number, self.caller, size_bytes)
        try:
            if isinstance(body, Hello):
                asked.answer(self._greet(body))
                return
            if not self.is_greeted:
                raise UsageProblem("no-hello", "the first request must be Hello")
            handler = self._clients.handler(self, type(body))
        except Problem as problem:
            asked.fail(problem)
            return
        asked.begin(handler(asked, body), fails_alone=body.fails_alone)
        self._carry_out(asked, until_s)

    def _greet(self, body: Hello) -> Welcome:
        """Return the answer to `Hello`; who has no name yet is not told the paths."""
        if body.version != PROTOCOL_VERSION:
            raise NotAllowed(
                "other-version",
                f"this daemon uses version {PROTOCOL_VERSION} of the protocol, the client "
                f"version {body.version}",
                SAME_VERSION,
            )
        self.is_greeted = True
        if isinstance(self._stream, FramedStream):
            self._stream.allow(REQUEST_BYTES_MAX)
        settings, user = self._clients.settings, self.user
        directory, front = settings.paths.directory, settings.role.front
        return Welcome(
            PROTOCOL_VERSION,
            settings.home,
            directory if user else "",
            os.getpid(),
            user,
            self.is_operator,
            front if user else "",
        )

    def _closed(self, reason: str) -> None:
        self.is_gone = True
        self._unread.hold(0)
        self._is_clogged = False
        if self.has_work:
            self._ready()  # its requests are carried out all the same
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
        settings: DaemonSettings,
        check_right: Callable[[Caller, type[RequestBody]], None],
    ) -> None:
        """`check_right` raises `NotAllowed` if a caller may not ask requests of a kind."""
        self._check_right = check_right
        self.settings = settings
        self._limits = limits = settings.configuration.limits
        self.room = ConnectionLimits(limits)
        self.turns = ServiceTurns(engine, limits)
        self._silent: dict[ClientSession, float] = {}
        """Sessions without a request yet, and when they are closed (steady), in order."""
        self._is_watching = False
        self._engine = engine
        self._arrivals = Arrivals(engine, identify, self.room, limits, self._arrived)
        self._handlers = handlers
        self._connections: dict[ClientSession, None] = {}
        self._to_flush: list[ClientSession] = []

    def accept(self, listener: socket.socket) -> float:
        """Accept the waiting connections; return how long to accept no more (s)."""
        return self._arrivals.accept(listener)

    def limits(self) -> dict[str, dict[str, int]]:
        """Return how often each user was refused or slowed, by limit; the counters stay current."""
        slowed = {"connects_per_s": self._arrivals.slowed, "requests_per_s": self.turns.slowed}
        return self.room.counters() | slowed

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

    def hold_for(self, caller: Caller) -> Callable[[int], str]:
        """Return a `hold` that counts a connection's incomplete frames for the user of `caller`."""
        room, user = self.room.unfinished, caller.person.name
        return HeldBytes(room, user, is_operator=caller.operator).hold

    def _watch(self) -> None:
        """Set a timer for the next session that has sent nothing."""
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

    def handler(self, connection: ClientSession, kind: type[RequestBody]) -> Handler:
        """Return the handler of a request; raise a `Problem` if the connection may not ask it."""
        handler = connection.handlers.get(kind)
        if handler is None:
            whose = f"{self.settings.home} has {self.settings.role}"
            words = f"this machine cannot answer that: {whose}"
            raise Refused("no-such-part", words, "ask the front end")
        if kind.asked_by in RESTRICTED:
            self._check_right(connection.caller, kind)
        return handler

    def disconnected(self, connection: ClientSession) -> None:
        """Forget a connection that is closed or handed over."""
        if connection in self._connections:
            del self._connections[connection]
            self._silent.pop(connection, None)
            if connection.user:
                self.room.leave(connection.user)

    def flush_later(self, connection: ClientSession) -> None:
        """Flush the connection at the end of this round of the event loop."""
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
    """Return the reply to a client that sends too long a frame."""
    failure = Failure(
        0,
        UsageProblem.exit_code,
        "too-long",
        f"the request has {length} bytes; the limit is {bytes_max}",
        "put long scripts and inputs into files that the job reads",
    )
    return reply_frame(failure)


def _fault(error: Exception) -> Problem:
    """Return the answer for an internal error that concerns this request alone."""
    return Problem(
        "internal",
        FAULTS.note("a request", error),
        "please report it, with log/daemon.log of the state directory",
    )

"""Scheduling of local clients: admission, fair turns and order of requests, deferred replies.

A client that connects in a loop costs the daemon as much as itself, so a connection costs little
here: a user with too many is refused and seldom logged, and one that connects too fast waits.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from time import perf_counter
from typing import Protocol

from iriai.config.limits import LimitsSection
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.identity.users.permissions import Caller
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Refused
from iriai.policy.service.allowances import ConnectionLimits
from iriai.policy.service.request_order import FairTurns, Place, RequestOrder
from iriai.policy.service.token_bucket import Rate, TokenBuckets
from iriai.store.sqlite import StoreFailure
from iriai.store.writer import Writer
from iriai.system.closing import CLOSING
from iriai.system.internal_errors import guarded
from iriai.wire.codec import reply_frame
from iriai.wire.requests import Failure


class Durability:
    """Requests whose changes are not durable yet.

    Each is answered even if the disk is full: a request that can be undone is refused, and undoes
    what it did; for any other the answer is that it takes effect once there is room.
    """

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer
        self._waiting: dict[Pending[None], bool] = {}
        """Whether each can be undone."""

    def check(self) -> None:
        """Raise `Refused` if nothing can be stored now."""
        failure = self._writer.failure
        if failure is not None:
            raise _refusal(failure)

    def stored(self, *, is_undone: bool = False) -> Pending[None]:
        """Await until all that this turn writes is durable. Only within a turn.

        Raises `Refused` if nothing can be stored. `is_undone`: the caller then undoes what it did.
        """
        pending: Pending[None] = Pending(is_immediate=True)
        self._waiting[pending] = is_undone
        self._engine.after_this_turn(partial(self._stored, pending))
        return pending

    def _stored(self, pending: Pending[None]) -> None:
        if self._waiting.pop(pending, None) is not None:
            pending.resolve(None)

    def refuse(self, _now: Instant) -> None:
        """Fail the waiting requests if nothing can be stored still. Called as a request."""
        failure = self._writer.failure
        if failure is None:
            return
        waiting, self._waiting = self._waiting, {}
        for pending, is_undone in waiting.items():
            pending.fail(_refusal(failure) if is_undone else _delay(failure))


def _refusal(failure: StoreFailure) -> Refused:
    return Refused("store-full", f"nothing can be stored: {failure.message}", failure.hint)


def _delay(failure: StoreFailure) -> Refused:
    return Refused(
        "not-stored-yet",
        f"this takes effect once it can be stored: {failure.message}",
        failure.hint,
    )


TURN_S = 0.005
"""Time for requests within one turn of the engine. Longer: fewer turns, and less work in all;
shorter: other events are handled sooner."""
TURN_ALONE_S = 0.03
"""The same if one user alone was served for `ALONE_S`: many submissions then take fewer turns, each
with one batch for the store and one pass of the broker."""
ALONE_S = 2.0
SLICE_S = 0.002
"""Time for one user before the next."""
OPERATOR_WEIGHT = 4.0
"""Operators get so many times the share of a user: they may have to end others' work."""


class Served(Protocol):
    """A client with requests."""

    @property
    def user(self) -> str:
        """The client's user."""

    @property
    def is_operator(self) -> bool:
        """Whether it is an operator's, which has no rate limit."""

    @property
    def has_work(self) -> bool:
        """Whether a request can be handled now."""

    def work(self, until_s: float, requests_max: int, now: Instant) -> int:
        """Handle requests until `until_s` (of `perf_counter`); return how many were begun.

        A large one counts as several, so there may be more than `requests_max`.
        """

    def rest(self) -> None:
        """Read on: all requests are handled."""

    def pause(self) -> None:
        """Read nothing more until `rest`."""


class ServiceTurns:
    """Handles requests of all clients in fair turns of their users.

    Each turn of the engine handles requests for a few milliseconds, those of the users with the
    least service so far first (`policy.service.request_order`). The rest waits for the next turn;
    until then nothing is read from clients with waiting requests.
    """

    def __init__(
        self,
        engine: Engine,
        limits: LimitsSection,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._turns = FairTurns()
        self._ready: dict[str, deque[Served]] = {}
        """Clients with requests, by user; also those that wait for tokens."""
        self._buckets: TokenBuckets[str] = TokenBuckets(
            Rate(limits.requests_per_s, limits.requests_burst)
        )
        self._aside: dict[str, None] = {}
        """Users who wait for tokens."""
        self._is_due = False
        self._last = ""
        """The user served last."""
        self._shared_s = clock()
        """The time of the last change of users."""
        self.slowed: dict[str, int] = {}
        """How often each user had to wait because of too many requests."""

    def ready(self, client: Served) -> None:
        """Add a client with requests; not called again before its `rest`."""
        waiting = self._ready.get(client.user)
        if waiting is None:
            self._ready[client.user] = deque((client,))
            self._enter(client.user)
            return
        waiting.append(client)
        if client.user in self._aside:
            client.pause()

    def _enter(self, user: str) -> None:
        self._aside.pop(user, None)
        self._turns.enter(user)
        if not self._is_due:
            self._is_due = True
            self._engine.request(self._serve)

    def _serve(self, now: Instant) -> None:
        began_s = self._clock()
        end_s = began_s + (TURN_ALONE_S if began_s - self._shared_s > ALONE_S else TURN_S)
        while self._turns.waiting and began_s < end_s:
            user = self._turns.next()
            if user != self._last:
                self._last, self._shared_s = user, began_s
            until_s = end_s if len(self._turns.waiting) == 1 else min(end_s, began_s + SLICE_S)
            began_s = self._slice(user, began_s, until_s, now)
        if self._turns.waiting:
            for waiting in self._ready.values():
                for client in waiting:
                    client.pause()
            self._engine.request(self._serve)
        else:
            self._is_due = False

    def _slice(self, user: str, began_s: float, until_s: float, now: Instant) -> float:
        """Serve a user until `until_s`; return the time afterwards."""
        waiting = self._ready[user]
        client = waiting.popleft()
        now_s = now.steady_s
        bucket = None if client.is_operator else self._buckets.of(user, now_s)
        requests_max = 1 << 30 if bucket is None else int(bucket.available(now_s))
        began = client.work(until_s, requests_max, now) if requests_max else 0
        if bucket is not None:
            bucket.spend(began)
        if client.has_work:
            waiting.append(client)
        else:
            client.rest()
        over_s = self._clock()
        weight = OPERATOR_WEIGHT if client.is_operator else 1.0
        self._turns.charge(user, over_s - began_s, weight)
        if not waiting:
            del self._ready[user]
            self._turns.leave(user)
        elif bucket is not None and began >= requests_max:
            self._wait_for_tokens(user, bucket.wait_s(now_s))
        return over_s

    def _wait_for_tokens(self, user: str, wait_s: float) -> None:
        """Serve `user` again when there are tokens."""
        self._turns.leave(user)
        self._aside[user] = None
        self.slowed[user] = self.slowed.get(user, 0) + 1
        for client in self._ready[user]:
            client.pause()
        self._engine.later(wait_s + TURN_S, partial(self._enter, user))


log = logging.getLogger(__name__)

ACCEPTED_MAX = 64
"""Connections accepted at a time, before the open ones are served again."""
RESTS = 4.0
"""After a refusal nothing is accepted for so many times as long as it took: refusals then cost a
fifth of a processor at most, and other connections wait a few milliseconds more."""
REST_MAX_S = 0.05
WAIT_MIN_S = 0.02
"""The least time between two attempts to serve delayed connections."""


class Arrivals:
    """Accepts, delays or refuses new connections of local clients."""

    def __init__(
        self,
        engine: Engine,
        identify: Callable[[socket.socket], Caller],
        room: ConnectionLimits,
        limits: LimitsSection,
        serve: Callable[[socket.socket, Caller], None],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`serve` takes a connection that was counted in `room`."""
        self._clock = clock
        self._engine = engine
        self._identify = identify
        self._limits = room
        self._serve = serve
        self._buckets: TokenBuckets[str] = TokenBuckets(
            Rate(limits.connects_per_s, limits.connects_burst)
        )
        self._waiting: dict[str, deque[tuple[socket.socket, Caller]]] = {}
        self.turned_away: dict[str, int] = {}
        """How often each user was refused, by any limit."""
        self.slowed: dict[str, int] = {}
        """How many connections of each user were delayed because of their rate."""

    def accept(self, listener: socket.socket) -> float:
        """Accept the waiting connections; return how long to accept no more (s)."""
        now_s, began_s, are_welcome = self._engine.steady_s(), self._clock(), True
        for _ in range(ACCEPTED_MAX):
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            are_welcome = self._admit(connection, now_s) and are_welcome
        return 0.0 if are_welcome else min(REST_MAX_S, RESTS * (self._clock() - began_s))

    def _admit(self, connection: socket.socket, now_s: float) -> bool:
        """Serve a connection, now or later; return False if it was refused."""
        try:
            caller = self._identify(connection)
        except Problem as problem:
            self._turn_away(connection, "", problem)
            return False
        user = caller.person.name
        if refusal := self._limits.enter(user, is_operator=caller.operator):
            self._turn_away(connection, user, refusal)
            return False
        if caller.operator or (user not in self._waiting and self._buckets.consume(user, now_s)):
            self._serve(connection, caller)
        else:
            self._wait(connection, caller, now_s)
        return True

    def close(self) -> None:
        """Close the delayed connections."""
        for user, waiting in self._waiting.items():
            for connection, _ in waiting:
                CLOSING.close_connection(connection)
                self._limits.leave(user)
        self._waiting.clear()

    def _wait(self, connection: socket.socket, caller: Caller, now_s: float) -> None:
        """Serve a connection once its user's rate allows it; until then nothing is read from it."""
        user = caller.person.name
        self.slowed[user] = self.slowed.get(user, 0) + 1
        waiting = self._waiting.get(user)
        if waiting is None:
            waiting = self._waiting[user] = deque()
            self._retry_later(user, now_s)
        waiting.append((connection, caller))

    def _retry_later(self, user: str, now_s: float) -> None:
        wait_s = max(WAIT_MIN_S, self._buckets.wait_s(user, now_s))
        self._engine.later(wait_s, guarded("an arrival", partial(self._retry, user)))

    def _retry(self, user: str) -> None:
        waiting, now_s = self._waiting.get(user), self._engine.steady_s()
        while waiting and self._buckets.consume(user, now_s):
            self._serve(*waiting.popleft())
        if waiting:
            self._retry_later(user, now_s)
        else:
            self._waiting.pop(user, None)

    def _turn_away(self, connection: socket.socket, user: str, problem: Problem) -> None:
        times = self.turned_away[user] = self.turned_away.get(user, 0) + 1
        if str(times).rstrip("0") == "1":
            words = "a connection of %s was refused for the %d. time: %s"
            log.info(words, user or "nobody", times, problem)
        connection.setblocking(False)
        try:
            connection.send(reply_frame(Failure(0, *problem.fields)))
        except OSError:
            pass  # it disconnected before the refusal
        finally:
            CLOSING.close_connection(connection)


class OrderedRequests:
    """Lets requests of each connection go on one after the other; see `RequestOrder`."""

    def __init__(self) -> None:
        self._order: RequestOrder[Hashable] = RequestOrder()
        self._waiting: dict[Place[Hashable], Pending[None]] = {}

    async def enter(self, connection: Hashable, size_bytes: int) -> Place[Hashable]:
        """Wait until those before it on its connection have left; raise `Refused` if too many."""
        place = self._order.enter(connection, size_bytes)
        if not place.is_first:
            pending = self._waiting[place] = Pending()
            await pending
        return place

    def leave(self, place: Place[Hashable]) -> None:
        """Let the next of the connection go on."""
        following = self._order.leave(place)
        if following is not None:
            self._waiting.pop(following).resolve(None)

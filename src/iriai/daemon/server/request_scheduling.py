"""Scheduling of local clients: admission of connections, fair turns of requests, deferred replies.

A client that connects in a loop costs the daemon as much as itself, so a connection costs little
here: a user with too many is refused and seldom logged, and one that connects too fast waits.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from time import perf_counter
from typing import NamedTuple, Protocol

from iriai.config.limits import LimitsSection
from iriai.daemon.loop.engine import Engine
from iriai.identity.users.permissions import Caller
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Refused
from iriai.policy.service.connection_limits import ConnectionLimits
from iriai.policy.service.fair_turns import FairTurns
from iriai.policy.service.token_bucket import Rate, TokenBuckets
from iriai.store.sqlite import StoreFailure
from iriai.store.writer import Writer
from iriai.system.closing import CLOSING
from iriai.system.internal_errors import guarded
from iriai.wire.codec import reply_frame
from iriai.wire.requests import AnswerBody, Failure


class Answerable(Protocol):
    """Someone who asked, here or over a link."""

    def answer(self, body: AnswerBody) -> None:
        """It is done."""

    def fail(self, problem: Problem) -> None:
        """It is not."""


class _Waiting(NamedTuple):
    asked: Answerable
    undo: Callable[[], None] | None
    """Takes back what was asked; None where that cannot be."""


class DeferredReplies:
    """Requests that changed something which is not durable yet.

    Nobody is left without an answer because the disk is full: what can be taken back is, and the
    others hear that theirs takes effect when there is room.
    """

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer
        self._waiting: dict[int, _Waiting] = {}
        self._keys = count()

    def check(self) -> None:
        """Raise `Refused` while nothing can be stored."""
        failure = self._writer.failure
        if failure is not None:
            raise _refusal(failure)

    def answer(
        self, asked: Answerable, body: AnswerBody, undo: Callable[[], None] | None = None
    ) -> None:
        """Answer once all that this turn writes is durable. Only from a request."""
        key = next(self._keys)
        self._waiting[key] = _Waiting(asked, undo)

        def stored() -> None:
            if self._waiting.pop(key, None) is not None:
                asked.answer(body)

        self._engine.after_this_turn(stored)

    def refuse(self, _now: Instant) -> None:
        """Tell those who wait that nothing can be stored, if that is still so. As a request."""
        failure = self._writer.failure
        if failure is None:
            return
        waiting, self._waiting = self._waiting, {}
        for asked, undo in waiting.values():
            if undo is None:
                asked.fail(_delay(failure))
            else:
                undo()
                asked.fail(_refusal(failure))


def _refusal(failure: StoreFailure) -> Refused:
    return Refused("store-full", f"nothing can be stored: {failure.message}", failure.hint)


def _delay(failure: StoreFailure) -> Refused:
    return Refused(
        "not-stored-yet",
        f"this takes effect once it can be stored: {failure.message}",
        failure.hint,
    )


TURN_S = 0.005
"""Of serving within one turn of the engine. Longer: fewer turns, and less work in all; shorter:
others are heard sooner."""
TURN_ALONE_S = 0.03
"""The same where one user alone was served for `ALONE_S`: who submits many jobs at once has them
begun in fewer turns, each with one batch for the store and one pass of the broker."""
ALONE_S = 2.0
SLICE_S = 0.002
"""What a user gets before the next, if there are several."""
OPERATOR_WEIGHT = 4.0
"""Operators get so many times the share of a user: they may have to end what others do."""


class Served(Protocol):
    """A client with something to do."""

    @property
    def user(self) -> str:
        """Whose it is."""

    @property
    def is_operator(self) -> bool:
        """Whether no rate holds for it."""

    @property
    def has_work(self) -> bool:
        """Whether there is something to do."""

    def work(self, until_s: float, requests_max: int, now: Instant) -> int:
        """Do some, until `until_s` (of `perf_counter`); returns how many requests were begun.

        A large one counts as several, so there may be more than `requests_max`.
        """

    def rest(self) -> None:
        """All is done: it may ask for more."""

    def pause(self) -> None:
        """It is to ask for nothing more until it rests."""


class ServiceTurns:
    """Requests of all clients, carried out in fair turns of their users.

    Each turn of the engine serves for a few milliseconds, users in the order of what they have had
    so far (`policy.service.held_jobs`). What remains waits for the next turn, between which others
    are heard; who has asked for more than was served is not read from meanwhile.
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
        """Who has something to do, by user; those who wait for tokens as well."""
        self._buckets: TokenBuckets[str] = TokenBuckets(
            Rate(limits.requests_per_s, limits.requests_burst)
        )
        self._aside: dict[str, None] = {}
        """Users who wait for tokens."""
        self._is_due = False
        self._last = ""
        """Who was served last."""
        self._shared_s = clock()
        """The time of the last change of users."""
        self.slowed: dict[str, int] = {}
        """How often each user had to wait since they asked too fast."""

    def ready(self, client: Served) -> None:
        """`client` has something to do; not called again before it rests."""
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
        """Serve a user for a while; returns when it was over."""
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
        """Serve `user` again when there are some."""
        self._turns.leave(user)
        self._aside[user] = None
        self.slowed[user] = self.slowed.get(user, 0) + 1
        for client in self._ready[user]:
            client.pause()
        self._engine.later(wait_s + TURN_S, partial(self._enter, user))


log = logging.getLogger(__name__)

ACCEPTED_MAX = 64
"""Connections that are taken before whoever is connected is heard again."""
RESTS = 4.0
"""Where someone was turned away, nobody is taken for so many times as long as that took: it costs
a fifth of a processor at most, and others who connect wait a few milliseconds more."""
REST_MAX_S = 0.05
WAIT_MIN_S = 0.02
"""Between two looks at those who came too fast."""
WORDS_KEPT = 64
"""What users were told last who were turned away: the same again and again."""


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
        """`serve` takes a connection that has been counted in `room`."""
        self._clock = clock
        self._engine = engine
        self._identify = identify
        self._limits = room
        self._serve = serve
        self._buckets: TokenBuckets[str] = TokenBuckets(
            Rate(limits.connects_per_s, limits.connects_burst)
        )
        self._waiting: dict[str, deque[tuple[socket.socket, Caller]]] = {}
        self._refusals: dict[tuple[str, str], bytes] = {}
        self.turned_away: dict[str, int] = {}
        """How often each user was, for whichever limit."""
        self.slowed: dict[str, int] = {}
        """How many connections of each user had to wait since they came too fast."""

    def accept(self, listener: socket.socket) -> float:
        """Take the connections that wait at `listener`; returns how long to take no more (s)."""
        now_s, began_s, are_welcome = self._engine.steady_s(), self._clock(), True
        for _ in range(ACCEPTED_MAX):
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            are_welcome = self._admit(connection, now_s) and are_welcome
        return 0.0 if are_welcome else min(REST_MAX_S, RESTS * (self._clock() - began_s))

    def _admit(self, connection: socket.socket, now_s: float) -> bool:
        """Serve it, now or later; False: it was turned away."""
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
        """Turn away those who wait."""
        for user, waiting in self._waiting.items():
            for connection, _ in waiting:
                CLOSING.close_connection(connection)
                self._limits.leave(user)
        self._waiting.clear()

    def _wait(self, connection: socket.socket, caller: Caller, now_s: float) -> None:
        """Serve it when its user has not come so fast any more; until then nothing is read."""
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
            connection.send(self._refuse(user, problem))
        except OSError:
            pass  # it left before it was told
        finally:
            CLOSING.close_connection(connection)

    def _refuse(self, user: str, problem: Problem) -> bytes:
        key = user, problem.message
        words = self._refusals.get(key)
        if words is None:
            told = Failure(0, problem.exit_code, problem.code, problem.message, problem.hint)
            words = self._refusals[key] = reply_frame(told)
            if len(self._refusals) > WORDS_KEPT:
                del self._refusals[next(iter(self._refusals))]
        return words

"""Requests of all clients, carried out in fair turns of their users.

Each turn of the engine serves for a few milliseconds, users in the order of what they have had so
far (`policy.service.held_jobs`). What remains waits for the next turn, between which others are
heard; who has asked for more than was served is not read from meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Protocol

from iriai.config.limits import LimitsSection
from iriai.daemon.loop.engine import Engine
from iriai.model.instant import Instant
from iriai.policy.service.held_jobs import FairTurns
from iriai.policy.service.token_bucket import Rate, TokenBuckets

TURN_S = 0.005
"""Of serving within one turn of the engine. Longer: fewer turns, and less work in all; shorter:
others are heard sooner."""
TURN_ALONE_S = 0.03
"""The same where one user alone was served for `ALONE_S`: who hands in many jobs at once has them
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
    """See the module."""

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
        """When that was somebody else than before."""
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

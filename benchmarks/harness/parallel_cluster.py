"""A broker among machines of one processor each, and homes whose tasks have 1 to 512 ranks.

The broker is the product's; machines and homes do no more than answer: a match becomes a claim on
each of its machines, and when its task has run each of them says so. What they say takes
`delay_s`, and the start of a task three round trips more (docs/spec/011, section 5).
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

from iriai.broker.core import Broker
from iriai.broker.state.state import BrokerSettings
from iriai.config.reader import Configuration
from iriai.config.sections import JobSection, OrderSection
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.draw.order import OrderSettings
from iriai.policy.placement.calendar import longest_stay_s
from iriai.protocol.messages.effects import Effect, Part, Send, Wake, WakeAt
from iriai.protocol.messages.scheduling import Capability, Idle, Match, Running, Want

WIDTHS = tuple(2**power for power in range(10))
SIGMA = 1.5
HOUR_S = 3600.0
ACCOUNTS = 20
WALL_S = 1_800_000_000.0
ONE = Resources(1)
CONTACT_S = 30.0
"""Between two moments at which all say that they are there."""
ROUND_TRIPS = 3
"""Between a match and the start of what it is for: hold, confirm, start."""


class Job(NamedTuple):
    """A task of several ranks."""

    number: int
    width: int
    run_s: float
    limit_s: float
    account: Account

    @property
    def want(self) -> Want:
        """What its home asks for."""
        shape = RankShape(self.width, self.width)
        job = JobId("home", self.number)
        return Want(job, self.account, ONE, self.limit_s, 1.0, 0.0, 1, shape=shape)


def jobs_of(number: int, seed: int) -> list[Job]:
    """So many jobs: widths with equal odds, lognormal hours, limits as people state them."""
    rng = Random(seed)
    made = []
    for each in range(1, number + 1):
        run_s = HOUR_S * rng.lognormvariate(0.0, SIGMA)
        limit_s = run_s * rng.uniform(1.0, 3.0)
        account = Account("lab", f"user{rng.randrange(ACCOUNTS)}")
        made.append(Job(each, rng.choice(WIDTHS), run_s, limit_s, account))
    return made


@dataclass
class Node:
    """A machine of one processor."""

    name: str
    version: int = 0

    def idle(self, *, is_free: bool, **fields: object) -> Idle:
        """Its next report; while it is free, one capability is new."""
        self.version += 1
        minted = (Capability(1, self.version, 0, 0),) if is_free else ()
        known = {"spent": (), "began": (), "ended": (), "whole": False, "unavailable": None}
        given = known | fields
        return Idle(self.name, 1, self.version, ONE, minted, **given)  # type: ignore[arg-type]


class ParallelCluster:
    """What happens to the jobs: `starts` has when each began, by number."""

    def __init__(
        self, machines: int, jobs: list[Job], *, order: str = "lottery", delay_s: float = 0.0
    ) -> None:
        orders = OrderSection(name=order, backfill="easy")
        section = JobSection(end_slack_s=0.0, kill_grace_s=0.0)
        configuration = Configuration(order=orders, jobs=section)
        named = order_named(order, OrderSettings(orders.usage_floor_s))
        self.broker = Broker(BrokerSettings(configuration, named), Random(1), "broker")
        self.now_s = 0.0
        self.jobs = {job.number: job for job in jobs}
        self.starts: dict[int, float] = {}
        self.took_ms: list[float] = []
        """Of the broker, after each end: milliseconds of the processor."""
        self._delay_s = delay_s
        self._nodes = {name: Node(name) for name in (f"m{n:04d}" for n in range(machines))}
        self._due: list[tuple[float, int, Idle | Want]] = []
        self._order = count()
        self._alarm_s = inf
        self._contacted_s = 0.0
        for node in self._nodes.values():
            self._say(0.0, node.idle(is_free=True, whole=True))
        for job in jobs:
            self._say(0.0, job.want)

    def run(self, starts: int) -> None:
        """Go on until so many jobs have started."""
        gc.collect()
        gc.freeze()  # as the daemon does, once it is up
        while self._due and len(self.starts) < starts:
            self._turn()

    def _turn(self) -> None:
        """Take all that is due at the next moment, and decide."""
        self.now_s = min(self._due[0][0], self._alarm_s) if self._due else self._alarm_s
        now, broker = Instant(self.now_s, WALL_S + self.now_s), self.broker
        messages: list[Idle | Want | Wake] = []
        while self._due and self._due[0][0] == self.now_s:
            messages.append(heappop(self._due)[2])
        if self._alarm_s <= self.now_s:
            self._alarm_s = inf
            messages.append(Wake(Part.BROKER))
        if self.now_s >= self._contacted_s + CONTACT_S:
            self._contacted_s = self.now_s
            for name in ("home", *self._nodes):
                broker.sessions.contacted(name, self.now_s)
        gc.disable()  # for a turn, as the daemon does
        for message in messages:
            broker.take(message, now)
        began = time.thread_time()
        effects = broker.end_turn(now)
        while effects and effects[-1] == WakeAt(Part.BROKER, self.now_s):  # the pass goes on
            broker.take(Wake(Part.BROKER), now)
            effects[-1:] = broker.end_turn(now)
        took_ms = 1e3 * (time.thread_time() - began)
        gc.enable()
        if any(isinstance(each, Idle) and each.ended for each in messages):
            self.took_ms.append(took_ms)
        self._answer(effects)

    def _answer(self, effects: list[Effect]) -> None:
        """Do what homes and machines do about what the broker said."""
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._alarm_s = max(effect.steady_s, self.now_s)
            elif isinstance(effect, Send) and isinstance(effect.message, Match):
                self._begin(effect.message)

    def _begin(self, match: Match) -> None:
        """Claim its seats, run it, and end it."""
        job = self.jobs[match.job.number]
        held_s = self.now_s + 2 * self._delay_s
        start_s = self.now_s + (1 + 2 * ROUND_TRIPS) * self._delay_s
        self.starts[job.number] = start_s
        end_s = start_s + job.run_s
        attempt = AttemptId("home", job.number, 0, 1)
        ends_in_s = longest_stay_s(job.limit_s, 0.0, 0.0)
        for rank, seat in enumerate(match.seats):
            which = attempt.seat(rank)
            running = Running(
                which, job.account, ONE, job.limit_s, ends_in_s, 0.0, 1.0, seat.capability
            )
            node = self._nodes[seat.machine]
            spent = (seat.capability,)
            claimed = node.idle(is_free=False, spent=spent, began=(running,))
            self._say(held_s + self._delay_s, claimed)
            self._say(end_s + self._delay_s, node.idle(is_free=True, ended=(which,)))

    def _say(self, at_s: float, message: Idle | Want) -> None:
        heappush(self._due, (at_s, next(self._order), message))

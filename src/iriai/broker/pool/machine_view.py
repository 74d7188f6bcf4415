"""The broker's view of one machine; the machine knows better, and may refuse."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from msgspec.structs import replace

from iriai.broker.pool.machine_backoff import MachineBackoff
from iriai.broker.queue.entries import QueuedJob
from iriai.model.ad import MachineAd
from iriai.model.ids import AttemptId
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import AHEAD_WAIT_S, Calendar
from iriai.protocol.messages.scheduling import Capability, Idle

MATCH_UNTIL_S = 10.0
"""How long a place is kept for a match whose claim has not been seen: the life of a tentative
claim (docs/spec/002, section 2)."""

RESEND_S = 1.0
"""A match of which nothing was heard for so long is told again: it may be lost."""

NO_AD = MachineAd()
MAY_JUST_BE_UP = frozenset({Rule.NO_LAUNCHER, Rule.DRAINED})
"""What a machine says that may have no launcher yet: a drain is told before that."""
ClaimKey = AttemptId | Capability | int
"""By what a claim is known: the attempt that holds it, the capability of a match under way, or a
number where no messages are exchanged."""


class Matched(NamedTuple):
    """A match under way."""

    until_s: float
    """On the steady clock; if nothing was heard of it by then, it is over."""
    entry: QueuedJob
    told_s: float = 0.0
    """When its home was told, the last time."""
    is_ahead: bool = False
    """It takes no place: the task is to wait there for one."""
    is_wanted: bool = True
    """Whether its task waits again if it comes to nothing; not, where the home is gone since."""


class Rank(NamedTuple):
    """The order in which machines are chosen: smaller first."""

    load: float
    """For each cpu, relative to speed."""
    taken: float
    """The part of its cpus that is claimed."""
    name: str


class MachineView:
    """Calendar, capabilities and matches under way of one machine."""

    __slots__ = (
        "ad",
        "ahead_capabilities",
        "back_off",
        "calendar",
        "capabilities",
        "ended",
        "foreign_load",
        "incarnation",
        "is_away",
        "is_forgotten",
        "keyboard_idle_s",
        "load",
        "matched",
        "mints",
        "name",
        "rules",
        "speed",
        "tenants",
        "unavailable",
        "version",
    )

    def __init__(self, name: str, capacity: Resources, *, mints: bool = True) -> None:
        """`mints` is False where claims need no capability, since no messages are exchanged."""
        self.name = name
        self.calendar: Calendar[ClaimKey] = Calendar(capacity)
        self.capabilities: deque[Capability] = deque()
        self.ahead_capabilities: deque[Capability] = deque()
        """For tasks that are to wait there for a place."""
        self.mints = mints
        self.matched: dict[Capability, Matched] = {}
        """Handed on and not seen again, oldest first."""
        self.tenants: dict[str, int] = {}
        """How many tasks run or are matched of who may have one at a time; see `TaskClassKey`."""
        self.ended = 0
        """Counts the claims that are over, and the matches that became none."""
        self.rules = 0
        """How often it became another whose tasks it runs; see `Idle.rules`."""
        self.unavailable: Reason | None = None
        """Why it takes nothing, as it says."""
        self.is_away = False
        """Whether it cannot be reached."""
        self.is_forgotten = False
        """Whether the directory keeps nothing of it: it is dropped once it is away."""
        self.back_off = MachineBackoff(name)
        self.speed = 1.0
        self.load = 0.0
        self.foreign_load = 0.0
        self.keyboard_idle_s: float | None = None
        self.ad = NO_AD
        """What it says of itself; empty where it said nothing."""
        self.incarnation = -1
        self.version = -1

    @property
    def is_available(self) -> bool:
        """Whether it takes tasks at all."""
        return self.unavailable is None and not self.is_away and self.back_off.until_s is None

    @property
    def is_open(self) -> bool:
        """Whether anything could be started there now."""
        return (
            self.calendar.free.cpus > 0
            and (not self.mints or bool(self.capabilities))
            and self.is_available
        )

    def rank(self) -> Rank:
        """Where it stands among those where a task may start (paper 000, section 5.4).

        What was claimed counts at once: a load average follows only within a minute, and matches
        of one moment would all go to one machine.
        """
        capacity, free = self.calendar.capacity.cpus, self.calendar.free.cpus
        claimed = capacity - free
        load = max(self.load, self.foreign_load + claimed)
        return Rank(load / (capacity * self.speed), claimed / capacity, self.name)

    def is_stale(self, idle: Idle) -> bool:
        """Whether a report is older than what is known."""
        return (idle.incarnation, idle.version) <= (self.incarnation, self.version)

    @property
    def is_overfull(self) -> bool:
        """Whether claims and matches together are more than there is."""
        return any(amount < 0 for _, amount in self.calendar.free.amounts())

    @property
    def last_matched(self) -> tuple[Capability, Matched] | None:
        """The last match under way that takes a place; None: there is none."""
        latest = reversed(self.matched.items())
        return next(((each, match) for each, match in latest if not match.is_ahead), None)

    def is_same(self, idle: Idle) -> bool:
        """Whether a whole report is of the machine that is known, so that only changes count."""
        return (
            not self.is_away
            and idle.incarnation == self.incarnation
            and idle.capacity == self.calendar.capacity
            and idle.speed == self.speed
            and (idle.ad or NO_AD) == self.ad
        )

    def follows(self, idle: Idle) -> bool:
        """Whether a report says all that changed since what is known."""
        return (idle.incarnation, idle.version) == (self.incarnation, self.version + 1)

    def what_is_new(self, idle: Idle) -> Idle:
        """A whole report of a machine that is known, as what changed."""
        good = dict.fromkeys((*idle.capabilities, *idle.ahead))
        live = {running.attempt: running for running in (*idle.began, *idle.waiting)}
        self.capabilities.clear()
        self.ahead_capabilities.clear()
        return replace(
            idle,
            capabilities=tuple(each for each in idle.capabilities if each not in self.matched),
            ahead=tuple(each for each in idle.ahead if each not in self.matched),
            spent=tuple(each for each in self.matched if each not in good),
            ended=tuple(
                key
                for key in (*self.calendar, *self.calendar.ahead)
                if isinstance(key, AttemptId) and key not in live
            ),
        )

    def match(self, entry: QueuedJob, now_s: float, key: int) -> ClaimKey:
        """Claim the place of a task of `entry`; by `key` where no capabilities are in use."""
        kind = entry.kind.key
        resources = self.calendar.capacity if kind.exclusive else kind.resources
        if not self.mints:
            self.calendar.add(key, resources, now_s, kind.stay_s)
            return key
        capability = self.capabilities.popleft()
        self.calendar.add(capability, resources, now_s, kind.stay_s)
        self.matched[capability] = Matched(now_s + MATCH_UNTIL_S, entry, now_s)
        return capability

    def match_ahead(self, entry: QueuedJob, now_s: float) -> Capability:
        """A task of `entry` is to wait there for a place."""
        kind = entry.kind.key
        stay_s = None if kind.stay_s is None else MATCH_UNTIL_S + AHEAD_WAIT_S + kind.stay_s
        capability = self.ahead_capabilities.popleft()
        self.calendar.add_ahead(capability, kind.resources, now_s, stay_s)
        self.matched[capability] = Matched(now_s + MATCH_UNTIL_S, entry, now_s, is_ahead=True)
        return capability

    def give_back(self, capability: Capability, matched: Matched) -> None:
        """A match came to nothing; its capability may still be good."""
        (self.ahead_capabilities if matched.is_ahead else self.capabilities).append(capability)

    def drop_home(self, home: str) -> None:
        """A home is gone: its tasks that are matched here do not wait again."""
        for capability, matched in self.matched.items():
            if matched.entry.want.job.home == home:
                self.matched[capability] = matched._replace(is_wanted=False)

    def advertised(self, idle: Idle) -> None:
        """What the machine says of itself beside its claims."""
        self.version = idle.version
        self.unavailable = idle.unavailable
        self.load, self.foreign_load = idle.load, idle.foreign_load
        self.keyboard_idle_s = idle.keyboard_idle_s

    def forget(self, capability: Capability) -> None:
        """The machine has seen it: it is good for nothing any more."""
        for capabilities in (self.capabilities, self.ahead_capabilities):
            if capability in capabilities:
                capabilities.remove(capability)

    def moved_in(self, tenant: str) -> None:
        """A task of someone who may have one at a time begins; empty: of nobody such."""
        if tenant:
            self.tenants[tenant] = self.tenants.get(tenant, 0) + 1

    def moved_out(self, tenant: str) -> None:
        """It is over."""
        if tenant:
            self.tenants[tenant] -= 1
            if not self.tenants[tenant]:
                del self.tenants[tenant]

    def check(self) -> None:
        """Raise where places and matches do not go together: (a) as the broker sees it.

        A machine without its launcher may have come up a moment ago: before that has said so, it
        does not know which of its claims have ended, whose place others were given.
        """
        if self.unavailable is None or self.unavailable.rule not in MAY_JUST_BE_UP:
            self.calendar.check()
        for capability, matched in self.matched.items():
            places = self.calendar.ahead if matched.is_ahead else self.calendar
            assert capability in places, f"{capability} has no place"
        for key in self.calendar.ahead:
            assert key not in self.calendar, f"{key} waits for a place that it has"
        assert len(set(self.capabilities)) == len(self.capabilities), "a capability twice"

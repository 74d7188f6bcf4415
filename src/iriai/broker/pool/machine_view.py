"""The broker's view of one machine; the machine knows better, and may refuse."""

from __future__ import annotations

from collections import deque
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from iriai.broker.queue.entries import QueuedJob
from iriai.model.ad import MachineAd
from iriai.model.backoff import Backoff
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import AHEAD_WAIT_S, Calendar
from iriai.protocol.messages.scheduling import Capability, Idle

FAILURES_MIN = 3
"""Failures in a row that are no accident: two refusals happen where a broker's knowledge is
stale."""
FIRST_S = 1.0
"""After the first `FAILURES_MIN`; each later failure doubles it."""
FAILING_USERS_MIN = 2
"""Users whose tasks fail at once there, and not elsewhere, before no user's are started there."""
MAX_S = 300.0
"""However often it failed: a machine that was mended works again within five minutes."""
DOUBT_MACHINES_MAX = 2
"""An account whose tasks were lost at once on more machines than that, and did well on none since,
says nothing of machines: it is the tasks."""
STRUCK_JOBS_MAX = 16
"""Jobs that are remembered with a machine; that there were more than a few is all that counts."""


class MachineBackoff(Backoff):
    """Counts the failures of one machine.

    It is always free: without this, all that waits would be tried there, again and again. In a
    prototype, 10 of 1,000 machines that failed each task after a second took 61 % of all starts;
    with this rule 1.7 %.
    """

    __slots__ = (
        "_failing",
        "_losses",
        "_machine",
        "_refusals",
        "_rows",
        "_struck",
    )

    def __init__(self, machine: str) -> None:
        super().__init__(FIRST_S, MAX_S)
        self._machine = machine
        self._refusals = 0
        self._losses = 0
        """How often it was left alone for them."""
        self._rows = 0
        """How often it was left alone for tasks that failed at once."""
        self._failing: dict[str, None] = {}
        """Users whose tasks fail at once here, and not elsewhere."""
        self._struck: dict[JobId, Account] = {}
        """Jobs whose tasks were lost at once here, and whose they are."""

    def failed(self, now_s: float) -> bool:
        """A match came back without a claim; whether the machine is left alone from now on."""
        self._refusals += 1
        return self._refusals >= FAILURES_MIN and self._leave_alone(now_s)

    def succeeded(self) -> None:
        """A match became a claim."""
        self._refusals = 0

    def lost(self, job: JobId, account: Account, now_s: float, *, is_proven: bool) -> bool:
        """A task was lost at once; whether the machine is left alone from now on.

        Three different jobs speak against it, if they are of two accounts, or of one of which
        tasks did well on other machines (`is_proven`).
        """
        if len(self._struck) < STRUCK_JOBS_MAX:
            self._struck[job] = account
        accounts = len(dict.fromkeys(self._struck.values()))
        if len(self._struck) < FAILURES_MIN or (accounts == 1 and not is_proven):
            return False
        self._losses += self.until_s is None  # what was lost together counts once
        return self._leave_alone(now_s)

    def fails(self, user: str, now_s: float) -> bool:
        """A user's tasks fail at once here, and not elsewhere; whether it is left alone by all.

        How tasks end is their users' doing as well: two of them must have met it, and nobody's
        task have done well since.
        """
        self._failing[user] = None
        if len(self._failing) < FAILING_USERS_MIN:
            return False
        self._rows += self.until_s is None
        return self._leave_alone(now_s)

    def fails_others(self, user: str) -> bool:
        """Return whether another user's tasks fail at once here and not elsewhere."""
        return any(each != user for each in self._failing)

    def did_well(self) -> None:
        """A task ended that was not lost at once, and did not fail at once."""
        self._struck.clear()
        self._failing.clear()
        self._losses = self._rows = 0

    def reason(self, now_s: float) -> Reason | None:
        """Return why it is left alone; None: it is not."""
        if self.until_s is None:
            return None
        if self._rows:
            had = (
                f"tasks of {len(self._failing)} users fail there within moments, and not elsewhere"
            )
        elif self._losses:
            had = f"tasks of {len(self._struck)} jobs in a row were lost there within moments"
        else:
            had = f"it failed {self._refusals} times in a row"
        return Reason(
            Rule.BACKED_OFF,
            "a machine that starts tasks",
            f"{had}; the next try is within {max(0.0, self.until_s - now_s):.0f} s: see its "
            "log, or drain it",
            self._machine,
        )

    def _leave_alone(self, now_s: float) -> bool:
        failures = max(self._refusals - FAILURES_MIN, self._losses - 1, self._rows - 1)
        return self._begin(failures, now_s)


class AccountReliability:
    """Which accounts' losses speak against a machine: a job that fails everywhere must not."""

    def __init__(self) -> None:
        self._lost_on: dict[Account, dict[str, None]] = {}
        """Machines on which tasks of an account were lost at once since one did well."""
        self._did_well: dict[Account, str] = {}
        """Where one of its tasks last did well."""

    def is_evidence(self, account: Account, machine: str) -> bool:
        """A task of the account was lost at once there; whether that may be the machine's fault."""
        machines = self._lost_on.setdefault(account, {})
        if len(machines) <= DOUBT_MACHINES_MAX:
            machines[machine] = None
        return len(machines) <= DOUBT_MACHINES_MAX

    def is_proven(self, account: Account, machine: str) -> bool:
        """Return whether the account's last task that did well ran on another machine."""
        return self._did_well.get(account, machine) != machine

    def did_well(self, account: Account, machine: str) -> None:
        """A task of the account ended there that was not lost at once."""
        self._lost_on.pop(account, None)
        self._did_well[account] = machine


MATCH_UNTIL_S = 10.0
"""The time that a place is kept for a match whose claim has not been seen: the life of a tentative
claim (docs/spec/002, section 2)."""

RESEND_S = 1.0
"""The time of silence after which a match is sent again: it may be lost."""

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
    """True if it takes no place: the task is to wait there for one."""
    is_wanted: bool = True
    """True if its task waits again when the match comes to nothing; false if the home is gone
    since."""


class Rank(NamedTuple):
    """The order in which machines are chosen: smaller first."""

    load: float
    """The load for each cpu, relative to speed."""
    taken: float
    """The part of its cpus that is claimed."""
    name: str


@dataclass(slots=True, eq=False)
class MachineView:
    """Calendar, capabilities and pending matches of one machine."""

    name: str
    capacity: InitVar[Resources]
    mints: bool = True
    """False where claims need no capability, since no messages are exchanged."""
    calendar: Calendar[ClaimKey] = field(init=False)
    capabilities: deque[Capability] = field(default_factory=deque)
    ahead_capabilities: deque[Capability] = field(default_factory=deque)
    """For tasks that are to wait there for a place."""
    matched: dict[Capability, Matched] = field(default_factory=dict)
    """Pending matches, the oldest first."""
    tenants: dict[str, int] = field(default_factory=dict)
    """The number of tasks that run or are matched, by tenant; see `TaskClassKey`."""
    ended: int = 0
    """Counts the claims that are over, and the matches that became none."""
    rules: int = 0
    """Counts the changes of whose tasks it runs; see `Idle.rules`."""
    unavailable: Reason | None = None
    """Why it takes no tasks, by its own report."""
    is_away: bool = False
    """Whether it cannot be reached."""
    is_forgotten: bool = False
    """Whether the directory keeps nothing of it: it is dropped once it is away."""
    back_off: MachineBackoff = field(init=False)
    speed: float = 1.0
    load: float = 0.0
    foreign_load: float = 0.0
    keyboard_idle_s: float | None = None
    ad: MachineAd = NO_AD
    """Its own description; empty where it reported none."""
    incarnation: int = -1
    version: int = -1

    def __post_init__(self, capacity: Resources) -> None:
        self.calendar = Calendar(capacity)
        self.back_off = MachineBackoff(self.name)

    @property
    def is_available(self) -> bool:
        """Return whether it takes tasks at all."""
        return self.unavailable is None and not self.is_away and self.back_off.until_s is None

    @property
    def is_open(self) -> bool:
        """Return whether anything could be started there now."""
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

    @property
    def is_overfull(self) -> bool:
        """Return whether claims and matches together are more than there is."""
        return any(amount < 0 for _, amount in self.calendar.free.amounts())

    @property
    def last_matched(self) -> tuple[Capability, Matched] | None:
        """The last match under way that takes a place; None: there is none."""
        latest = reversed(self.matched.items())
        return next(((each, match) for each, match in latest if not match.is_ahead), None)

    def is_same(self, idle: Idle) -> bool:
        """Return whether a whole report is of the known machine: then only changes count."""
        return (
            not self.is_away
            and idle.incarnation == self.incarnation
            and idle.capacity == self.calendar.capacity
            and idle.speed == self.speed
            and (idle.ad or NO_AD) == self.ad
        )

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

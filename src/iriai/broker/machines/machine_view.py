"""The broker's view of one machine; the machine knows better, and may refuse."""

from __future__ import annotations

from collections import deque
from dataclasses import InitVar, dataclass, field
from math import inf
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from iriai.broker.machines.beside_bookings import held_s
from iriai.broker.queue.entries import QueuedJob
from iriai.classad.installation import why_unusable
from iriai.model.ad import MachineAd
from iriai.model.backoff import Backoff
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.owner import MachineUse
from iriai.model.reason import Reason, Rule
from iriai.model.reservable import UNLIMITED, Reservable
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import AHEAD_WAIT_S, Calendar
from iriai.protocol.messages.scheduling import Capability, Cycle, Idle, SeatOffer

FAILURES_MIN = 3
"""Failures in a row before a machine is backed off: a broker with stale knowledge causes two."""
FIRST_S = 1.0
"""After the first `FAILURES_MIN`; each later failure doubles it."""
FAILING_USERS_MIN = 2
"""Users whose tasks fail at once there, and not elsewhere, before no user's are started there."""
MAX_S = 300.0
"""The longest pause: a machine that was repaired works again within five minutes."""
DOUBT_MACHINES_MAX = 2
"""An account whose tasks were lost at once on more machines than that, and succeeded on none since,
is no evidence against machines: its tasks are the cause."""
STRUCK_JOBS_MAX = 16
"""Jobs that are remembered with a machine; only whether there were a few matters."""


class MachineBackoff(Backoff):
    """Counts the failures of one machine.

    A machine that fails all tasks is always free, so every waiting task would be tried there. In a
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
        """The number of pauses for lost tasks."""
        self._rows = 0
        """The number of pauses for tasks that failed at once."""
        self._failing: dict[str, None] = {}
        """Users whose tasks fail at once here, and not elsewhere."""
        self._struck: dict[JobId, Account] = {}
        """Jobs whose tasks were lost at once here, and whose they are."""

    def failed(self, now_s: float) -> bool:
        """Count a match without a claim; return whether a pause begins."""
        self._refusals += 1
        return self._refusals >= FAILURES_MIN and self._pause(now_s)

    def succeeded(self) -> None:
        """Note that a match became a claim."""
        self._refusals = 0

    def lost(self, job: JobId, account: Account, now_s: float, *, is_proven: bool) -> bool:
        """Count a task that was lost at once; return whether a pause begins.

        Three different jobs are evidence enough if they are of two accounts, or of one whose
        tasks succeeded on other machines (`is_proven`).
        """
        if len(self._struck) < STRUCK_JOBS_MAX:
            self._struck[job] = account
        accounts = len(dict.fromkeys(self._struck.values()))
        if len(self._struck) < FAILURES_MIN or (accounts == 1 and not is_proven):
            return False
        self._losses += self.until_s is None  # what was lost together counts once
        return self._pause(now_s)

    def fails(self, user: str, now_s: float) -> bool:
        """Note a user whose tasks fail at once only here; return whether a pause for all begins.

        The cause may be the user: two users must be affected, and no task have succeeded since.
        """
        self._failing[user] = None
        if len(self._failing) < FAILING_USERS_MIN:
            return False
        self._rows += self.until_s is None
        return self._pause(now_s)

    def fails_others(self, user: str) -> bool:
        """Return whether another user's tasks fail at once here and not elsewhere."""
        return any(each != user for each in self._failing)

    @property
    def is_in_doubt(self) -> bool:
        """Return whether anything failed there lately."""
        return bool(self._refusals or self._struck or self._failing)

    def did_well(self) -> None:
        """Note a task that was neither lost nor failed at once."""
        self._struck.clear()
        self._failing.clear()
        self._losses = self._rows = 0

    def reason(self, now_s: float) -> Reason | None:
        """Return why nothing is started there; None where it is not backed off."""
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

    def _pause(self, now_s: float) -> bool:
        failures = max(self._refusals - FAILURES_MIN, self._losses - 1, self._rows - 1)
        return self._begin(failures, now_s)


class AccountReliability:
    """Decides which accounts' losses are evidence against a machine, not against the job."""

    def __init__(self) -> None:
        self._lost_on: dict[Account, dict[str, None]] = {}
        """Machines on which an account's tasks were lost at once since one succeeded."""
        self._did_well: dict[Account, str] = {}
        """The machine on which an account's task last succeeded."""

    @property
    def has_losses(self) -> bool:
        """Return whether a task of some account was lost at once, and none succeeded since."""
        return bool(self._lost_on)

    def is_evidence(self, account: Account, machine: str) -> bool:
        """Note a task lost at once; return whether that is evidence against the machine."""
        machines = self._lost_on.setdefault(account, {})
        if len(machines) <= DOUBT_MACHINES_MAX:
            machines[machine] = None
        return len(machines) <= DOUBT_MACHINES_MAX

    def is_proven(self, account: Account, machine: str) -> bool:
        """Return whether the account's last success was on another machine."""
        return self._did_well.get(account, machine) != machine

    def did_well(self, account: Account, machine: str) -> None:
        """Note a task of the account that was not lost at once."""
        self._lost_on.pop(account, None)
        self._did_well[account] = machine


MATCH_UNTIL_S = 10.0
"""The time that a place is kept for a match whose claim has not been seen: the life of a tentative
claim (docs/spec/002, section 2)."""

SEAT_S = 0.005
"""More of it for each seat after the first: a home stores and sends an order for each."""

RESEND_S = 1.0
"""The time of silence after which a match is sent again: it may be lost."""

NO_AD = MachineAd()
MAY_JUST_BE_UP = frozenset({Rule.NO_LAUNCHER, Rule.DRAINED})
"""What a machine without its launcher may report: a drain precedes the missing launcher."""
ClaimKey = AttemptId | Capability | int
"""The key of a claim: the attempt that holds it, the capability of a pending match, or a number
where no messages are exchanged."""


class Matched(msgspec.Struct, eq=False):
    """A pending match: all seats of one task."""

    entry: QueuedJob
    until_s: float
    """On the steady clock; without an answer by then, the match is over."""
    sent_s: float = 0.0
    """When it was last sent to its home."""
    seats: list[SeatOffer] = msgspec.field(default_factory=list)
    """In the order of their ranks."""
    is_ahead: bool = False
    """True for a prefetch: it holds no resources until others there end."""
    is_put_off: bool = False
    """True if it had a place first, which another claim has: its capability is no prefetch's."""
    may_be_lost: bool = False
    """True if it was sent to another machine, or concerns several."""
    is_wanted: bool = True
    """True if its task waits again should the match fail; false once its home is away."""
    is_received: bool = False
    """True once a capability of it came back: its home has it, and says what still waits."""
    is_refused: bool = False
    """True once one came back without a claim."""

    @property
    def waits_again(self) -> bool:
        """Return whether its task waits again should it fail now."""
        return self.is_wanted and not self.is_received


class Rank(NamedTuple):
    """The order in which machines are chosen: smaller first."""

    load: float
    """The load for each cpu, relative to speed."""
    taken: float
    """The part of its CPUs that is claimed."""
    name: str


@dataclass(slots=True, eq=False)
class MachineView:
    """Calendar, capabilities and pending matches of one machine."""

    name: str
    capacity: InitVar[Resources]
    pool: str = ""
    """The name of its pool: machines alike (docs/spec/011, section 3)."""
    mints: bool = True
    """False where claims need no capability, since no messages are exchanged."""
    calendar: Calendar[ClaimKey] = field(init=False)
    capabilities: deque[Capability] = field(default_factory=deque)
    ahead_capabilities: deque[Capability] = field(default_factory=deque)
    """For prefetched tasks."""
    row_cpus: int = 0
    """The cpus that a gang may have beside those that are free, in a row of its own."""
    has_clock: bool = False
    """Whether it knows this broker's clock well enough for time slices."""
    cycle: int = 0
    """The number of the last `Cycle` that it was told."""
    told_turns: Cycle | None = None
    """That; None: it may not have what it was told."""
    matched: dict[Capability, Matched] = field(default_factory=dict)
    """Pending matches, the oldest first."""
    tenants: dict[str, int] = field(default_factory=dict)
    """The number of tasks that run or are matched, by tenant; see `TaskClassKey`."""
    ended: int = 0
    """Counts the claims that are over, the matches that became none, and changes of bookings."""
    rules: int = 0
    """Counts the changes of whose tasks it runs; see `Idle.rules`."""
    reservable: Reservable = UNLIMITED
    """What its owner lets be reserved of it."""
    unavailable: Reason | None = None
    """Why it takes no tasks, by its own report."""
    is_away: bool = False
    """Whether it cannot be reached."""
    closed_until_s: float | None = None
    """Its pool runs as many tasks as it may, and the first of them ends then; None: it may more."""
    is_forgotten: bool = False
    """Whether the directory keeps nothing of it: it is dropped once it is away."""
    back_off: MachineBackoff = field(init=False)
    speed: float = 1.0
    load: float = 0.0
    foreign_load: float = 0.0
    keyboard_idle_s: float | None = None
    expected_idle_s: float | None = None
    """As it was reported last; None: it has no owner policy."""
    idle_until_s: float = inf
    """Until when its owner is expected to stay away, on the steady clock."""
    use: MachineUse | None = None
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
            self.calendar.free.cpus + self.row_cpus > 0
            and (not self.mints or bool(self.capabilities))
            and self.closed_until_s is None
            and self.is_available
        )

    @property
    def is_pool_full(self) -> bool:
        """Return whether its pool runs as many tasks as it may."""
        return self.closed_until_s is not None

    def open_rank(self) -> Rank | None:
        """Return its rank; None: nothing could be started there now."""
        return self.rank() if self.is_open else None

    def rank(self) -> Rank:
        """Return its rank among the machines where a task may start (paper 000, section 5.4).

        Claims count at once, since a load average follows only within a minute: all matches of
        one moment would go to one machine.
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
        """Return the last pending match that holds resources; None where there is none."""
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

    def changes_in(self, idle: Idle) -> Idle:
        """Return a whole report of a known machine as a report of what changed."""
        valid = dict.fromkeys((*idle.capabilities, *idle.ahead))
        live = {running.attempt: running for running in (*idle.began, *idle.waiting)}
        self.capabilities.clear()
        self.ahead_capabilities.clear()
        return replace(
            idle,
            capabilities=tuple(each for each in idle.capabilities if each not in self.matched),
            ahead=tuple(each for each in idle.ahead if each not in self.matched),
            spent=tuple(each for each in self.matched if each not in valid),
            ended=tuple(
                key
                for key in (*self.calendar, *self.calendar.ahead)
                if isinstance(key, AttemptId) and key not in live
            ),
        )

    def match(self, matched: Matched, ranks: int, now_s: float, key: int) -> ClaimKey:
        """Claim resources for a seat of a task; under `key` where no capabilities are in use."""
        kind = matched.entry.kind.key
        resources = self.calendar.capacity if kind.exclusive else kind.resources
        if ranks > 1 and not kind.exclusive:
            resources = resources.times(ranks)
        stay_s, calendar = kind.stay_s, self.calendar
        if calendar.bookings:
            stay_s = held_s(calendar, kind, resources, now_s)
        if not self.mints:
            calendar.add(key, resources, now_s, stay_s, kind.reservation)
            return key
        capability = self.capabilities.popleft()
        calendar.add(capability, resources, now_s, stay_s, kind.reservation)
        self.matched[capability] = matched
        matched.seats.append(SeatOffer(self.name, capability, ranks))
        return capability

    def match_ahead(self, matched: Matched, now_s: float) -> Capability:
        """Claim resources for a task as soon as other claims there end."""
        capability = self.ahead_capabilities.popleft()
        self._add_ahead(capability, matched, now_s)
        self.matched[capability] = matched
        matched.seats.append(SeatOffer(self.name, capability))
        return capability

    def may_wait_ahead(self, matched: Matched) -> bool:
        """Return whether the machine may grant a match ahead, for which there is no place now."""
        kind = matched.entry.kind
        return not (kind.is_wide or kind.key.exclusive or kind.key.resources.gpus)

    def wait_ahead(self, capability: Capability, matched: Matched, now_s: float) -> None:
        """Let a match wait until others there end: what it was made for has another claim."""
        self.calendar.remove(capability)
        matched.is_ahead = matched.is_put_off = True
        self._add_ahead(capability, matched, now_s)

    def _add_ahead(self, capability: Capability, matched: Matched, now_s: float) -> None:
        kind = matched.entry.kind.key
        stay_s = None if kind.stay_s is None else MATCH_UNTIL_S + AHEAD_WAIT_S + kind.stay_s
        self.calendar.add_ahead(capability, kind.resources, now_s, stay_s)

    def give_back(self, capability: Capability, matched: Matched) -> None:
        """Take back the capability of a failed match: it may still be valid."""
        is_ahead = matched.is_ahead and not matched.is_put_off
        (self.ahead_capabilities if is_ahead else self.capabilities).append(capability)

    def drop_home(self, home: str) -> None:
        """Let the matched tasks of a home that is away not wait again."""
        for matched in self.matched.values():
            if matched.entry.want.job.home == home:
                matched.is_wanted = False

    def advertised(self, idle: Idle) -> None:
        """Take what a machine reports beside its claims."""
        self.version = idle.version
        self.unavailable = idle.unavailable or self._unreadable
        self.load, self.foreign_load = idle.load, idle.foreign_load
        self.keyboard_idle_s, self.use = idle.keyboard_idle_s, idle.use
        self.expected_idle_s = idle.expected_idle_s
        self.has_clock = idle.has_clock

    @property
    def _unreadable(self) -> Reason | None:
        """Return why this broker cannot read the owner's requirements; None: it can."""
        problem = why_unusable(on_many=True) if self.ad.requirements else ""
        if not problem:
            return None
        needed = "a broker that can read the owner's requirements"
        return Reason(Rule.OWNER_POLICY, needed, problem, self.name)

    def forget(self, capability: Capability) -> None:
        """Remove a capability that was used."""
        for capabilities in (self.capabilities, self.ahead_capabilities):
            if capability in capabilities:
                capabilities.remove(capability)

    def moved_in(self, tenant: str) -> None:
        """Count a task of a tenant who may have one at a time; ignore an empty name."""
        if tenant:
            self.tenants[tenant] = self.tenants.get(tenant, 0) + 1

    def moved_out(self, tenant: str) -> None:
        """Count off a task of a tenant."""
        if tenant:
            self.tenants[tenant] -= 1
            if not self.tenants[tenant]:
                del self.tenants[tenant]

    def check(self) -> None:
        """Raise if claims and matches contradict each other: invariant (a) as the broker sees it.

        A machine that has just started may not know yet which of its claims ended while their
        resources were given to others.
        """
        if self.unavailable is None or self.unavailable.rule not in MAY_JUST_BE_UP:
            self.calendar.check()
        for capability, matched in self.matched.items():
            places = self.calendar.ahead if matched.is_ahead else self.calendar
            assert capability in places, f"{capability} has no place"
        for key in self.calendar.ahead:
            assert key not in self.calendar, f"{key} waits for a place that it has"
        assert len(set(self.capabilities)) == len(self.capabilities), "a capability twice"

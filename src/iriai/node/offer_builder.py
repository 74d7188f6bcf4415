"""Builds the node's report for the broker: collected during a turn, sent once at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from iriai.model.backoff import Backoff
from iriai.model.ids import AttemptId
from iriai.model.owner import MachineUse
from iriai.model.reason import Reason, Rule
from iriai.model.records import Drained, LedgerRow
from iriai.model.resources import Resources
from iriai.node.settings import NodeSettings
from iriai.protocol.messages.effects import LoadMeasured
from iriai.protocol.messages.reservations import BookedTimes
from iriai.protocol.messages.scheduling import (
    Capability,
    Charging,
    Counted,
    FailedAtOnce,
    Idle,
    Running,
    TurnedAway,
)

STEP_PART = 0.1
"""The change of the load, as a part of the load reported last, that is reported again ..."""
STEP_MIN = 0.2
"""... and by this much at least: a load average wavers by a tenth on an idle machine."""
IDLE_STEP_PART = 0.25
"""The growth of the machine's idle time, as a part of it, that is reported again ..."""
IDLE_STEP_MIN_S = 60.0
"""... and at least this; the end of the idle time is reported at once."""
NO_USE = MachineUse()
RELIEF = 0.8
"""A machine above its owner's threshold is open again below this part of it, so that a load near
the threshold does not toggle it."""


class Load:
    """The last measured load, and the last reported one."""

    def __init__(self, machine: str, cpus: int, load_max: float | None) -> None:
        self._machine = machine
        self._cpus = max(1, cpus)
        self._load_max = load_max
        self.average = 0.0
        self.foreign = 0.0
        self.keyboard_idle_s: float | None = None
        self.expected_idle_s: float | None = None
        """For how long the owner stays away; None: the machine has no owner policy."""
        self.use: MachineUse | None = None
        """None: nobody knows of any."""
        self.is_known = False
        self._told_idle_s = 0.0
        self._told = (0.0, 0.0)
        self._is_above = False

    def measured(self, event: LoadMeasured) -> bool:
        """Take a new measurement; return whether it is to be reported."""
        average, foreign = event.load_average, event.foreign_load
        is_news = self._idled(event.keyboard_idle_s)
        if self.use is not None or event.console_idle_s is not None:
            self.use = (self.use or NO_USE)._replace(console_idle_s=event.console_idle_s)
        was_known, was_above = self.is_known, self._is_above
        self.average, self.foreign, self.is_known = average, foreign, True
        if self._load_max is not None:
            bound = self._load_max * (RELIEF if was_above else 1.0)
            self._is_above = foreign / self._cpus > bound
        if was_known and was_above is self._is_above and not (is_news or self._has_moved()):
            return False
        self._told = (average, foreign)
        return True

    def _idled(self, idle_s: float | None) -> bool:
        """Take the time since the last input; return whether it is to be reported."""
        self.keyboard_idle_s = idle_s
        if idle_s is None:
            return False
        told_s = self._told_idle_s
        if told_s <= idle_s < told_s + max(IDLE_STEP_MIN_S, IDLE_STEP_PART * told_s):
            return False
        self._told_idle_s = idle_s
        return True

    def _has_moved(self) -> bool:
        return any(
            abs(now - told) >= max(STEP_MIN, STEP_PART * told)
            for now, told in zip((self.average, self.foreign), self._told, strict=True)
        )

    def reason(self) -> Reason | None:
        """Return why no task is started here; None: tasks are."""
        if not self._is_above or self._load_max is None:
            return None
        return Reason(
            Rule.LOAD_ABOVE_THRESHOLD,
            f"at most {self._load_max:g} of foreign load per CPU, and less than "
            f"{self._load_max * RELIEF:g} after it was more",
            f"it is {self.foreign / self._cpus:.2f}",
            self._machine,
        )


FIRST_S = 1.0
"""Pause after one failure: a launcher that shuts down has ended by then."""
MAX_S = 60.0
"""Longest pause: a minute after space on the disk was freed, tasks start again."""


class LauncherBackoff(Backoff):
    """The pause of a node whose launcher could not start tasks.

    Without it a machine that starts nothing would always be free, and get the whole queue. The
    pause doubles with each failure in a row, and is forgotten with the first success.
    """

    def __init__(self, machine: str) -> None:
        super().__init__(FIRST_S, MAX_S)
        self._machine = machine
        self._failures = 0
        self._message = ""

    def failed(self, message: str, now_s: float) -> None:
        """Count a failed start; several at once count as one."""
        if self._begin(self._failures, now_s):
            self._failures += 1
            self._message = message

    def succeeded(self) -> None:
        """Forget the failures after a start."""
        self._failures = 0

    def reason(self) -> Reason | None:
        """Return why no claim is accepted; None: claims are."""
        if self.until_s is None:
            return None
        return Reason(
            Rule.BACKED_OFF,
            "a launcher that starts tasks",
            f"it could not: {self._message}; the next try is within {MAX_S:.0f} s",
            self._machine,
        )


class Availability:
    """Availability of a node: its launcher, a drain, the owner's threshold, recent starts."""

    def __init__(
        self, machine: str, cpus: int, load_max: float | None, drained: Drained | None
    ) -> None:
        self._machine = machine
        self.has_launcher = False
        self.drained = drained
        self.owner: Reason | None = None
        """Why the owner wants no background task to start; None: it may."""
        self.is_vacated = False
        """Whether the owner has the machine back, so that background tasks had to leave it."""
        self.exempts: Callable[[str], bool] | None = None
        """Whether the tasks of a user are no background tasks; None: those of all are."""
        self.back_off = LauncherBackoff(machine)
        self.load = Load(machine, cpus, load_max)

    def reason(self) -> Reason | None:
        """Return why nothing can be started, the longest-lasting reason first; None: it can."""
        drained = self.drained
        if drained is not None:
            return Reason(
                Rule.DRAINED,
                f"iriai resume {self._machine}",
                f"{drained.by} drained it: {drained.reason}",
                self._machine,
            )
        if self.has_launcher:
            owner = self.owner if self.exempts is None else None
            return self.back_off.reason() or owner or self.load.reason()
        return Reason(
            Rule.NO_LAUNCHER, "a launcher that answers", "none is connected", self._machine
        )

    def in_use_for(self, user: str) -> Reason | None:
        """Return why the owner wants no task of this user to start, though others' may; or None."""
        exempts = self.exempts
        return None if exempts is None or exempts(user) else self.owner

    def reason_for(self, user: str) -> Reason | None:
        """Return why no task of this user can be started; None: it can."""
        return self.reason() or self.in_use_for(user)


OUTSTANDING_MAX = 4096
"""Largest number of capabilities; it bounds what a broker must hold for one node."""


class Capabilities:
    """The capabilities that this node has given out and not yet seen again.

    There are as many as could be used at once. A capability that comes back is accepted once;
    whether the resources are still free is checked then: a stale one costs a refusal, never a
    double booking.
    """

    def __init__(self, incarnation: int, rng: Random) -> None:
        self.incarnation = incarnation
        self._rng = rng
        self._outstanding: dict[int, Capability] = {}
        self._minted_s: dict[int, float] = {}
        self._next_slot = 0
        self._overtaken_below = 0

    def __len__(self) -> int:
        return len(self._outstanding)

    def outstanding(self) -> tuple[Capability, ...]:
        """Return all capabilities that may still come back, oldest first."""
        return tuple(self._outstanding.values())

    def mint(self, wanted: int, version: int, now_s: float) -> tuple[Capability, ...]:
        """Return new ones, so many that `wanted` are outstanding."""
        minted = []
        for _ in range(min(wanted, OUTSTANDING_MAX) - len(self._outstanding)):
            slot = self._next_slot
            self._next_slot += 1
            capability = Capability(self.incarnation, version, slot, self._rng.getrandbits(63))
            self._outstanding[slot] = capability
            self._minted_s[slot] = now_s
            minted.append(capability)
        return tuple(minted)

    def redeem(self, capability: Capability) -> float | None:
        """Return when this node minted it; None: it did not, or has seen it before."""
        if self._outstanding.get(capability.slot) != capability:
            return None
        del self._outstanding[capability.slot]
        return self._minted_s.pop(capability.slot)

    def overtake(self) -> None:
        """Note that a claim that might have waited took a free place, meant for one of these.

        The claim for that, which is under way, may then wait in its stead.
        """
        self._overtaken_below = self._next_slot

    def is_overtaken(self, capability: Capability) -> bool:
        """Return whether a claim that might have waited took the place it was minted for."""
        return capability.slot < self._overtaken_below

    def void(self) -> tuple[Capability, ...]:
        """Invalidate all outstanding capabilities and return them."""
        voided = self.outstanding()
        self._outstanding.clear()
        self._minted_s.clear()
        return voided


AHEAD_MAX = 16
"""Largest number of tasks in transit that may wait here. Each is in transit for some hundredths of
a second, so it is enough for some hundred tasks that begin within each second."""


class OfferBuilder:
    """Collects the content of the next report."""

    def __init__(
        self,
        settings: NodeSettings,
        incarnation: int,
        rng: Random,
        load: Load,
    ) -> None:
        self._settings = settings
        self.capabilities = Capabilities(incarnation, rng)
        self.ahead = Capabilities(incarnation, rng)
        """The capabilities for claims that may wait here for a place."""
        self._load = load
        self.version = 0
        """The version of the last report."""
        self.is_due = True
        """Whether something changed that a broker must know."""
        self.is_whole = True
        """True if the next report must be complete, because the broker is new."""
        self._capacity = settings.given
        """That of the last report."""
        self.rules = 0
        """The number of changes of the rules that decide whose tasks are run."""
        self.has_clock = False
        """Whether the broker's clock is known well enough for time slices."""
        self.cycle = 0
        """The number of the last `Cycle` that was taken in."""
        self._began: list[AttemptId] = []
        self._waiting: list[AttemptId] = []
        self._ended: list[AttemptId] = []
        self._lost: list[AttemptId] = []
        self._failed: list[FailedAtOnce] = []
        self._refused: list[AttemptId] = []
        self._changed: dict[AttemptId, None] = {}
        self._spent: list[Capability] = []
        self._turned_away: list[TurnedAway] = []
        self.charges: dict[AttemptId, float] = {}
        """Charges of running attempts since the counters were reported."""

    def restart(self) -> None:
        """Make a whole report due: the broker is new, or may not have received the last ones."""
        self.is_due = self.is_whole = True

    def began(self, attempt: AttemptId) -> None:
        """Note a granted claim."""
        self._began.append(attempt)
        self.is_due = True

    def waits(self, attempt: AttemptId) -> None:
        """Note a claim granted ahead."""
        self._waiting.append(attempt)
        self.is_due = True

    def changed(self, attempt: AttemptId) -> None:
        """Note a claim that holds something else, or ends at another time, than was reported."""
        self._changed[attempt] = None
        self.is_due = True

    def ended(self, attempt: AttemptId) -> None:
        """Note a claim that is over."""
        self._ended.append(attempt)
        self.is_due = True

    def lost_at_once(self, attempt: AttemptId) -> None:
        """Note an attempt that was lost at once, with no request to end it."""
        self._lost.append(attempt)

    def failed_at_once(self, attempt: AttemptId, exit_code: int | None) -> None:
        """Note an attempt that failed by itself almost at once."""
        self._failed.append(FailedAtOnce(attempt, exit_code))

    def refused(self, attempt: AttemptId) -> None:
        """Note an attempt that never started."""
        self._refused.append(attempt)

    def spent(self, capability: Capability) -> None:
        """Note a capability that came back."""
        self._spent.append(capability)
        self.is_due = True

    def turned_away(self, whose: TurnedAway) -> None:
        """Note a capability that came back with a claim refused because of its user."""
        self._turned_away.append(whose)

    def charged(self, attempt: AttemptId, charge_s: float) -> None:
        """Note the charge of a running attempt so far."""
        self.charges[attempt] = charge_s

    def counted(self, rows: tuple[LedgerRow, ...]) -> Counted:
        """Return the changed counters (all, in a complete report) and the charges of attempts."""
        charged, self.charges = self.charges, {}
        return Counted(self._settings.machine, rows, tuple(charged.items()))

    def idle(
        self,
        capacity: Resources,
        free: Resources,
        live: Iterable[AttemptId],
        running: Callable[[AttemptId], Running | None],
        waiting: Sequence[AttemptId],
        unavailable: Reason | None,
        charging: Charging,
        now_s: float,
        booked: Callable[[bool], BookedTimes | None],
        *,
        other_cpus: int = 0,
    ) -> Idle:
        """Return the report; `live` hold a claim, `running` describes one of them (None: over).

        `waiting` are those of `live` that were granted ahead. `booked` returns what a broker has to
        hear of bookings, all if it is given True. `other_cpus` are not free, and a broker may give
        them to tasks: to others than those that claim them, or inside open bookings.
        """
        self.version += 1
        settings = self._settings
        if capacity != self._capacity:
            self._capacity, self.is_whole = capacity, True
        offered_cpus = max(0, free.cpus) + other_cpus
        minted = self.capabilities.mint(offered_cpus, self.version, now_s)
        runs = min(AHEAD_MAX, settings.capacity.cpus - free.cpus) - len(waiting)
        ahead = self.ahead.mint(max(0, runs), self.version, now_s)
        whose = live if self.is_whole else self._began
        began = [running(attempt) for attempt in whose if attempt not in waiting]
        waits = waiting if self.is_whole else [each for each in self._waiting if each in waiting]
        changed = () if self.is_whole else tuple(self._changed)
        idle = Idle(
            settings.machine,
            self.capabilities.incarnation,
            self.version,
            capacity,
            self.capabilities.outstanding() if self.is_whole else minted,
            tuple(self._spent),
            tuple(filter(None, began)),
            tuple(self._ended),
            self.is_whole,
            unavailable,
            settings.speed,
            self._load.average,
            self._load.foreign,
            self._load.is_known,
            tuple(self._lost),
            tuple(self._refused),
            charging if self.is_whole else None,
            settings.ad_now if self.is_whole else None,
            self._load.keyboard_idle_s,
            self._load.use,
            tuple(self._turned_away),
            self.ahead.outstanding() if self.is_whole else ahead,
            tuple(filter(None, map(running, waits))),
            tuple(self._failed),
            self.rules,
            tuple(filter(None, map(running, changed))) if changed else (),
            self.cycle,
            self.has_clock,
            self._load.expected_idle_s,
            booked(self.is_whole),
            settings.reservable if self.is_whole and settings.reservable.is_limited else None,
        )
        self._began, self._ended, self._spent = [], [], []
        self._lost, self._failed, self._refused, self._waiting = [], [], [], []
        self._turned_away, self._changed = [], {}
        self.is_due = self.is_whole = False
        return idle

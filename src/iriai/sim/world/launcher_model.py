"""A simulated launcher: starts nothing, remembers as a real one, and ends tasks on time.

It outlives its daemon. It may die: what ran goes on until the next launcher finds and ends it. It
may be stopped: then it does nothing, leases included, until it wakes. Times are those of the world.
tests/conformance holds it to what the real one does.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import accumulate
from math import inf

from msgspec.structs import replace

from iriai.model.ids import AttemptId
from iriai.model.owner import OwnerWord, SignKind
from iriai.model.ranks import has_shape
from iriai.model.state import START_TOLD_WITHIN_S, EndCause
from iriai.model.submission import Interaction
from iriai.model.suspension import NO_REASONS, Reasons, SuspendReason, with_reason
from iriai.model.time_slices import NO_CYCLES, Cycles, SliceCycle, masks_of
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptFrozen,
    AttemptsSampled,
    AttemptStarted,
    Effect,
    ForgetAttempt,
    FreezeAttempt,
    LaunchAttempt,
    LauncherAttached,
    LauncherEvent,
    OrderCycle,
    OwnerNoticed,
    PrologFailed,
    RenewLeases,
    SampleAttempts,
    TerminateAttempt,
    WatchOwner,
)
from iriai.sim.world.clock import Clock
from iriai.sim.world.owner_model import OwnerModel
from iriai.sim.world.work import LOST, End, ProcessModel, Work, Works

FORGOTTEN = "this attempt ended here earlier, and its end was acknowledged"
NEVER_ORDERED = "it was ended before it was ordered"
NO_PROGRAM = Work(0.05, (EndCause.FAILED, 127, None))
"""The end of a shell whose program is missing."""
REFUSED: End = (EndCause.REFUSED, None, None)
PROLOG_FAILED = "prolog ended with exit code 1"


def _unheard(_process: ProcessModel) -> None:
    """Ignore a process: no observer is set."""


class LauncherModel:
    """A launcher that knows each attempt as running, ended or forgotten, across its deaths."""

    def __init__(self, clock: Clock, works: Works, speed: float = 1.0) -> None:
        self.works = works
        self.running: dict[AttemptId, ProcessModel] = {}
        self.exits: dict[AttemptId, AttemptExited] = {}
        self.forgotten: dict[AttemptId, None] = {}
        self.starts: list[AttemptId] = []
        """All starts of attempts, in order, across restarts."""
        self.refuses = ""
        """The reason for which it refuses all starts; empty if it does not."""
        self.fails_at_once = False
        """True while the program of each task is missing on the machine."""
        self.fails_prolog = False
        """True while the machine's prolog fails."""
        self.freezes: dict[AttemptId, FreezeAttempt] = {}
        """The last order to freeze or thaw each attempt that runs, and had one."""
        self.unfit: dict[AttemptId, PrologFailed] = {}
        """Prologs that failed, until the end of the attempt is forgotten."""
        self.sensor_fails = False
        """True while nothing notices the owner; see `have_sensor`."""
        self.is_up = True
        self.is_stopped = False
        self.woken_s = 0.0
        """When it last went on after it was stopped."""
        self.liars: frozenset[str] = frozenset()
        """Homes that lie: they may have a task of their own run twice."""
        self.on_start: Callable[[ProcessModel], None] = _unheard
        self.on_end: Callable[[ProcessModel], None] = _unheard
        self.clock = clock
        self._speed = speed
        self._ends: list[tuple[float, int, AttemptId]] = []
        self._sequence = 0
        self._orders: list[Effect] = []
        """Orders received while it was stopped."""
        self._renewed_s: dict[str, float] = {}
        """By home, the steady time from which the leases of its attempts count."""
        self._away_s = 0.0
        """The time at which it was stopped or died."""
        self._written_s = 0.0
        """The time of the last write to its journal."""
        self._changed_s: dict[AttemptId, float] = {}
        """When each attempt that was ever frozen, or ordered to, was last frozen or thawed."""
        self._owner = OwnerModel()
        self._by_owner: dict[AttemptId, None] = {}
        """What the standing order keeps frozen, whatever else does."""
        self.is_asleep = False
        """True while the machine sleeps, with all that is on it."""
        self._signs: list[tuple[SignKind, float]] = []
        """Those that came while it was stopped."""
        self._cycles: Cycles = NO_CYCLES
        """In the time of the world."""
        self._cycle_number = -1
        self._masks: dict[AttemptId, int] = {}
        """Of all attempts that were named, also of those that it does not know."""

    def runs(self, attempt: AttemptId, now_s: float) -> bool:
        """Return True if the process of an attempt runs, even if the launcher is away."""
        process = self.running.get(attempt)
        if process is None:
            return False
        if self.is_up and not self.is_stopped:
            return now_s < process.end_s
        return now_s < process.end_untended_s(self._away_s)

    @property
    def is_behind(self) -> bool:
        """Return whether it has orders that it has not followed yet."""
        return bool(self._orders)

    def executes(self, attempt: AttemptId, now_s: float) -> bool:
        """Return True if an attempt runs, it is its turn, and nothing keeps it frozen."""
        process = self.running.get(attempt)
        return process is not None and self.runs(attempt, now_s) and process.executes(now_s)

    # --- orders ----------------------------------------------------------------------------------

    def order(self, effect: Effect, now_s: float) -> list[LauncherEvent]:
        """Perform an order of the node; return the events that follow at once."""
        if self.is_stopped:
            self._orders.append(effect)
            return []
        match effect:
            case LaunchAttempt():
                return self._launch(effect, now_s)
            case TerminateAttempt(attempt, cause, grace_s):
                process = self.running.get(attempt)
                if process is not None:
                    process.ask(cause, grace_s, now_s)
                    self._plan(process)
                elif attempt not in self.exits and attempt not in self.forgotten:
                    self._written_s = now_s
                    never = (cause, None, None)
                    return [self._keep(attempt, never, Usage(), now_s, 0.0, NEVER_ORDERED)]
            case FreezeAttempt():
                return self._freeze(effect, now_s)
            case OrderCycle():
                self._take_turns(effect, now_s)
            case WatchOwner():
                return self._watch(effect, now_s)
            case ForgetAttempt(attempt):
                self._forget(attempt, now_s)
            case RenewLeases(home, asked_steady_s):
                self._renew(home, asked_steady_s, now_s)
            case SampleAttempts():
                runs = self.running.items()
                usages = ((a, p.work.usage(p.spec, p.ran_s(now_s))) for a, p in runs)
                return [AttemptsSampled(tuple(usages))]
        return []

    def _launch(self, order: LaunchAttempt, now_s: float) -> list[LauncherEvent]:
        """Start an attempt, or repeat the event of one that is known."""
        attempt, spec = order.attempt, order.spec
        if attempt in self.running:
            return [AttemptStarted(attempt, self._wall_s(self.running[attempt].started_s))]
        if attempt in self.exits:
            return [self.exits[attempt]]
        if attempt in self.forgotten or self.refuses:
            return [self._refused(attempt, self.refuses or FORGOTTEN, now_s)]
        if self.fails_prolog:
            unfit = self.unfit[attempt] = PrologFailed(attempt, PROLOG_FAILED)
            return [unfit, self._refused(attempt, PROLOG_FAILED, now_s)]
        whole = attempt.seat(0)
        others = [
            other
            for other in self.running
            if other.task == attempt.task and (other.seat(0) != whole or other == attempt)
        ]
        is_safe = not others or attempt.home in self.liars
        assert is_safe, f"{attempt} is started while {others[0]} runs"
        knows_all = _knows_all_seats(order) or attempt.home in self.liars
        assert knows_all, f"{attempt} is started, of seats {order.seats} for {spec.shape}"
        work = self.works.of(attempt, spec)
        if self.fails_at_once and work.run_s != inf:
            work = NO_PROGRAM
        if order.ranks > 1:
            spec = replace(spec, resources=spec.resources.times(order.ranks))
        process = ProcessModel(attempt, spec, work, now_s, self._speed)
        if order.lease_s is not None:
            if self.clock.world_s(order.leased_steady_s + order.lease_s) <= now_s:
                # Renewals that came since do not count: one may have come when this was over.
                process.end, process.end_s = LOST, now_s
                return [self._exit(process)]
            since_s = self._renewed_s.get(attempt.home, order.leased_steady_s)
            since_s = max(since_s, order.leased_steady_s)
            process.lease_s = order.lease_s
            process.lease_end_s = self.clock.world_s(since_s + order.lease_s)
        if attempt in self._masks and self._cycles.now.takes_turns:
            process.take_turns(self._cycles, self._masks[attempt], now_s)
        if self._owner.order.is_given and self._owner.keeps(attempt):
            self._by_owner[attempt], self._changed_s[attempt] = None, now_s
            process.freeze(now_s)
        self.running[attempt] = process
        self.starts.append(attempt)
        self._written_s = now_s
        self._plan(process)
        self.on_start(process)
        if attempt in self._by_owner:
            return [AttemptStarted(attempt, self._wall_s(now_s)), self._frozen(process)]
        is_watched = spec.interaction is not Interaction.BATCH
        if process.end_s < now_s + START_TOLD_WITHIN_S and not is_watched:
            return []  # its end tells its start
        return [AttemptStarted(attempt, self._wall_s(now_s))]

    def _freeze(self, order: FreezeAttempt, now_s: float) -> list[LauncherEvent]:
        """Freeze or thaw an attempt, unless it is to end, or a later order came before."""
        attempt = order.attempt
        process, last = self.running.get(attempt), self.freezes.get(attempt)
        if process is None or process.is_asked(now_s):
            return []
        if last is not None and order.number <= last.number:
            return []
        self.freezes[attempt] = order
        return self._follow(process, now_s)

    def _reasons(self, attempt: AttemptId) -> Reasons:
        order = self.freezes.get(attempt)
        reasons = NO_REASONS if order is None else order.reasons
        if attempt not in self._by_owner:
            return reasons
        return with_reason(reasons, SuspendReason.OWNER, is_given=True)

    def _follow(self, process: ProcessModel, now_s: float) -> list[LauncherEvent]:
        """Freeze or thaw a process as its reasons are now, and tell that."""
        attempt = process.attempt
        if self._reasons(attempt):
            process.freeze(now_s)
        else:
            process.thaw(now_s)
        self._changed_s[attempt] = now_s
        self._plan(process)
        # What is frozen at once is told as started before.
        started = AttemptStarted(attempt, self._wall_s(process.started_s))
        return [started, self._frozen(process)]

    def _frozen(self, process: ProcessModel) -> AttemptFrozen:
        attempt, order = process.attempt, self.freezes.get(process.attempt)
        changed_s = self._changed_s[attempt]
        steady_s = self.clock.at(changed_s).steady_s
        frozen_s = process.frozen_s(changed_s) * (1.0 + self.clock.drift)
        number = 0 if order is None else order.number
        return AttemptFrozen(attempt, number, self._reasons(attempt), frozen_s, steady_s)

    # --- the owner -------------------------------------------------------------------------------

    @property
    def owner_seen_s(self) -> float:
        """When the last sign was that suspends, on its steady clock; -inf: there was none."""
        return self._owner.suspended_s

    @property
    def woke_s(self) -> float:
        """When the machine last woke, on its steady clock, and nobody has said since: away."""
        return self._owner.woke_s

    def owner_said(self, word: OwnerWord | None, for_s: float, now_s: float) -> None:
        """Note what the owner tells the daemon, for `owner_seen_s`."""
        steady_s = self.clock.at(now_s).steady_s
        self._owner.said(word, steady_s, steady_s + for_s)

    def is_kept_by_owner(self, attempt: AttemptId) -> bool:
        """Return whether a sign keeps an attempt frozen."""
        return attempt in self._by_owner

    def sign(self, kind: SignKind, now_s: float) -> list[LauncherEvent]:
        """Have the owner give a sign; return the events that follow at once."""
        if not (self.is_up and self._owner.has_order) or self.sensor_fails:
            return []
        if self.is_stopped:
            self._signs.append((kind, now_s))
            return []
        self._owner.sign(kind, self.clock.at(now_s).steady_s)
        return [self._noticed(), *self._follow_owner(now_s)]

    def looks_for(self, kind: SignKind, now_s: float, *, holds: bool) -> list[LauncherEvent]:
        """Have a sensor of a condition look; return the events that follow at once."""
        if not (self.is_up and self._owner.watches(kind)):
            return []
        held = self._owner.holds(kind)
        is_told = self._owner.sees(kind, self.clock.at(now_s).steady_s, holds=holds)
        if is_told and self.is_stopped:
            self._signs.append((kind, now_s))
        elif is_told:
            self._owner.sign(kind, self.clock.at(now_s).steady_s)
            return [self._noticed(), *self._follow_owner(now_s)]
        return [self._noticed()] if held is not holds and not self.is_stopped else []

    def have_sensor(self, now_s: float, *, works: bool) -> list[LauncherEvent]:
        """Let the only sensor work, or fail; return the events that follow at once."""
        was_failing, self.sensor_fails = self.sensor_fails, not works
        if not self._owner.has_order or not self.is_up:
            return []
        if works and was_failing:
            return self.sign(SignKind.START, now_s)
        return [] if self.is_stopped else [self._noticed()]

    def _watch(self, order: WatchOwner, now_s: float) -> list[LauncherEvent]:
        """Take in a standing order; with the first one somebody begins to watch."""
        is_first = not self._owner.has_order
        self._owner.take(order)
        events = [self._noticed(), *self._follow_owner(now_s)]
        return events + self.sign(SignKind.START, now_s) if is_first else events

    def _noticed(self) -> OwnerNoticed:
        return self._owner.noticed(sensor_fails=self.sensor_fails)

    def _follow_owner(self, now_s: float) -> list[LauncherEvent]:
        """Freeze and thaw what runs as the standing order says now."""
        events: list[LauncherEvent] = []
        for attempt, process in self.running.items():
            if process.is_asked(now_s):
                continue
            before = self._reasons(attempt)
            if self._owner.keeps(attempt):
                self._by_owner[attempt] = None
            else:
                self._by_owner.pop(attempt, None)
            if self._reasons(attempt) != before:
                events += self._follow(process, now_s)
        return events

    def takes_turns(self, attempt: AttemptId) -> bool:
        """Return whether an attempt is to run in its rows alone, unless it is asked to end."""
        return attempt in self._masks

    def _take_turns(self, order: OrderCycle, now_s: float) -> None:
        """Have attempts run in their rows alone; it goes on with that when its daemon is away."""
        if order.number <= self._cycle_number:
            return
        self._cycle_number = order.number
        rate = 1.0 + self.clock.drift
        row_0_s = (order.row_0_steady_s - self.clock.steady_offset_s) / rate
        cycle = SliceCycle(order.quantum_s / rate, order.rows, row_0_s)
        before = self._masks
        self._cycles, self._masks = self._cycles.followed_by(cycle, now_s), masks_of(order.turns)
        for attempt in dict.fromkeys((*before, *self._masks)):
            process = self.running.get(attempt)
            if process is None:
                continue
            mask = self._masks.get(attempt)
            cycles = self._cycles if mask is not None and cycle.takes_turns else None
            process.take_turns(cycles, mask or 0, now_s)
            self._plan(process)

    def _forget(self, attempt: AttemptId, now_s: float) -> None:
        self._written_s = now_s
        self.unfit.pop(attempt, None)
        if self.exits.pop(attempt, None) is not None:
            self.forgotten[attempt] = None

    def _renew(self, home: str, asked_steady_s: float, now_s: float) -> None:
        self._renewed_s[home] = max(asked_steady_s, self._renewed_s.get(home, asked_steady_s))
        for process in self.running.values():
            if process.attempt.home == home and process.lease_s is not None:
                lease_end_s = self.clock.world_s(asked_steady_s + process.lease_s)
                if process.lease_end_s > now_s:
                    process.lease_end_s = max(process.lease_end_s, lease_end_s)

    # --- time ------------------------------------------------------------------------------------

    def next_end_s(self) -> float:
        """Return the next end of a process; infinite without one, or while the launcher is away."""
        ends = self._ends
        if not ends or not self.is_up or self.is_stopped:
            return inf
        while ends:
            due_s, _, attempt = ends[0]
            process = self.running.get(attempt)
            if process is None:
                heappop(ends)
            elif process.due_s > due_s:
                heappop(ends)
                self._plan(process)
            else:
                return due_s
        return inf

    def ends_until(self, now_s: float) -> list[LauncherEvent]:
        """Return the exits of the processes that have ended by now."""
        ended: list[LauncherEvent] = []
        while self.next_end_s() <= now_s:
            attempt = heappop(self._ends)[2]
            process = self.running.pop(attempt)
            self._forget_freezes(attempt)
            if process.lease_end_s < process.end_s:
                process.ask(EndCause.LOST, 0.0, process.lease_end_s)
            # A launcher that slept past it notices it now.
            process.end_s = max(process.end_s, now_s)
            ended.append(self._exit(process))
            self.on_end(process)
        return ended

    def _plan(self, process: ProcessModel) -> None:
        self._sequence += 1
        heappush(self._ends, (process.due_s, self._sequence, process.attempt))

    # --- what happens to it ----------------------------------------------------------------------

    def die(self, now_s: float) -> None:
        """Die; the processes go on until the next launcher starts, or end unseen."""
        if self.is_up and not self.is_stopped:
            self._away_s = now_s
        self.is_up = self.is_stopped = False
        self._orders.clear()
        self._renewed_s.clear()
        if self._masks:  # what switches between them sees that, and leaves none running
            for process in self.running.values():
                process.strand(now_s)
        self._cycles, self._cycle_number, self._masks = NO_CYCLES, -1, {}
        self._owner = OwnerModel()
        self._signs.clear()
        self.is_asleep = False

    def power_off(self, now_s: float) -> None:
        """End with the machine and all its processes."""
        self.die(now_s)
        self._lose_all(now_s, is_searched=False)

    def start(self, now_s: float) -> None:
        """Start anew from the journal: end all processes that are found."""
        self._lose_all(now_s, is_searched=True)
        self.is_up = True

    def stop(self, now_s: float) -> None:
        """Stop (SIGSTOP); the tasks go on."""
        self.is_stopped = True
        self._away_s = now_s

    def sleep(self, now_s: float) -> None:
        """Sleep with the machine and all tasks; leases go on."""
        self.stop(now_s)
        self.is_asleep = True

    def _end_sleep(self, now_s: float) -> None:
        """Let tasks go on where they were; nobody knows who is at the machine now."""
        for process in self.running.values():
            process.did_nothing(now_s - self._away_s)
            self._plan(process)
        self.is_asleep = False
        self._owner.woke(self.clock.at(now_s).steady_s)
        if self._owner.has_order and not self.sensor_fails:
            self._signs.append((SignKind.START, now_s))

    def wake(self, now_s: float) -> list[LauncherEvent]:
        """Go on: handle leases and ends first, then signs and orders received meanwhile."""
        if self.is_asleep:
            self._end_sleep(now_s)
        if self.is_stopped:
            self.is_stopped, self.woken_s = False, now_s
            for process in self.running.values():
                process.slept(self._away_s, now_s)
        events = self.ends_until(now_s) if self.is_up else []
        signs, self._signs = self._signs, []
        for kind, at_s in signs:
            self._owner.sign(kind, self.clock.at(at_s).steady_s)
        if self._owner.has_order:  # signs came meanwhile, or a sensor failed
            events += [self._noticed(), *self._follow_owner(now_s)]
        orders, self._orders = self._orders, []
        for order in orders:
            events += self.order(order, now_s)
        return events

    def welcome(self) -> list[LauncherEvent]:
        """Return the events for a daemon that connects."""
        alive = tuple((a, self._wall_s(p.started_s)) for a, p in self.running.items())
        frozen = [self._frozen(self.running[each]) for each in self._changed_s]
        noticed = [self._noticed()] if self._owner.has_order else []
        ends = self.exits.values()
        return [LauncherAttached(alive), *self.unfit.values(), *ends, *noticed, *frozen]

    def _lose_all(self, now_s: float, *, is_searched: bool) -> None:
        """End all processes, as a new launcher that searches for them or as a power failure.

        What it used is not known. It counts as running until now where something was found of it,
        else until the launcher is last known to have been there: when the journal was written.
        """
        away_s, written_s = self._away_s, self._written_s
        for process in list(self.running.values()):
            end_s = process.end_untended_s(away_s)
            is_found = is_searched and end_s > now_s
            seen_s = max(process.started_s, now_s if is_found else written_s)
            process.end_s, process.end = min(now_s, end_s), LOST
            del self.running[process.attempt]
            self._forget_freezes(process.attempt)
            elapsed_s = max(0.0, seen_s - process.started_s)
            self._keep(process.attempt, LOST, Usage(), process.started_s, elapsed_s)
            self.on_end(process)

    def _exit(self, process: ProcessModel) -> AttemptExited:
        self._written_s = process.end_s
        elapsed_s = process.ran_s(process.end_s)
        usage = process.work.usage(process.spec, elapsed_s)
        stood_s = process.frozen_s(process.end_s) + process.away_s(process.end_s)
        return self._keep(
            process.attempt, process.end, usage, process.started_s, elapsed_s, stood_s=stood_s
        )

    def _forget_freezes(self, attempt: AttemptId) -> None:
        if attempt in self._changed_s:
            del self._changed_s[attempt]
            self.freezes.pop(attempt, None)
            self._by_owner.pop(attempt, None)

    def _refused(self, attempt: AttemptId, why: str, now_s: float) -> AttemptExited:
        self._written_s = now_s
        return self._keep(attempt, REFUSED, Usage(), now_s, 0.0, why)

    def _keep(
        self,
        attempt: AttemptId,
        end: End,
        usage: Usage,
        started_s: float,
        elapsed_s: float,
        reason: str = "",
        stood_s: float = 0.0,
    ) -> AttemptExited:
        start_wall_s = self._wall_s(started_s)
        end_wall_s = start_wall_s + elapsed_s + stood_s
        exit_ = AttemptExited(attempt, *end, usage, start_wall_s, end_wall_s, elapsed_s, reason)
        self.exits[attempt] = exit_
        return exit_

    def _wall_s(self, world_s: float) -> float:
        return self.clock.at(world_s).wall_s


def _knows_all_seats(order: LaunchAttempt) -> bool:
    """Return whether a seat is told of all others, whose ranks it is to meet."""
    seats = [(place.machine, place.ranks) for place in order.seats] or [("", order.ranks)]
    firsts = accumulate((ranks for _, ranks in seats), initial=0)
    own = (order.attempt.rank, order.ranks)
    is_one_of_them = own in zip(firsts, (ranks for _, ranks in seats), strict=False)
    return is_one_of_them and has_shape(seats, order.spec.shape)

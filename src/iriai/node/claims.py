"""Claims of this machine: its calendar, the holders, and the assigned GPUs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from iriai.model.claim import HOLD_MAX_S, HOLD_S, Claim, ClaimedTurn, Phase
from iriai.model.ids import AttemptId, ReservationId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.model.turn import RowSet
from iriai.node.holds import Holds
from iriai.node.metering import HeldClaim
from iriai.node.settings import NodeSettings
from iriai.policy.placement.calendar import AHEAD_WAIT_S, Calendar, longest_stay_s
from iriai.policy.placement.slice_matrix import Holding, held_cpus
from iriai.protocol.messages.scheduling import Renew, Renewed, Run

ASK_PART = 1 / 3
"""Part of the shortest lease after which a renewal is due: two more requests may fail before it
expires."""
AGAIN_PART = 1 / 12
"""Part of the shortest lease after which an unanswered request is repeated."""
AGAIN_MIN_S = 0.1
"""Shortest time between requests, for any lease: otherwise a machine does nothing else."""
LATER_S = 1e-3
"""By how much the end of a claim is later if it is at all, and not rounded."""
PENDING_MAX = 16
"""Requests to a home that may still be answered: more than fit into one lease."""


class _Home:
    """The leases from one home."""

    def __init__(self, next_ask_s: float) -> None:
        self.held: dict[AttemptId, HeldClaim] = {}
        self.asked: deque[float] = deque(maxlen=PENDING_MAX)
        self.answered_s: float | None = None
        """The time of the latest request that was answered."""
        self.next_ask_s = next_ask_s

    @property
    def shortest_s(self) -> float:
        """The shortest lease."""
        return min(held.claim.lease_s or 0.0 for held in self.held.values())


class LeaseRenewal:
    """The leases of attempts whose homes are on other machines, and their requests and answers.

    docs/spec/002, section 3, has the rules and their proof. A lease counts from the time of the
    node's request, never from that of the answer, and an expired one stays expired. By home; homes
    without claims here are forgotten.
    """

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._homes: dict[str, _Home] = {}
        self.next_s: float | None = None
        """When a home must be asked next; None: none must."""

    def add(self, held: HeldClaim, now_s: float) -> None:
        """Add a claim with a lease; if the lease has not begun, the home is asked at once."""
        lease_s = held.claim.lease_s
        assert lease_s is not None
        began_s = held.leased_steady_s
        ask_s = now_s if began_s is None else began_s + lease_s * ASK_PART
        name = held.claim.attempt.home
        home = self._homes.get(name)
        if home is None:
            home = self._homes[name] = _Home(ask_s)
        home.held[held.claim.attempt] = held
        home.next_ask_s = min(home.next_ask_s, ask_s)
        self._plan()

    def remove(self, attempt: AttemptId) -> None:
        """Remove an attempt that is over."""
        home = self._homes.get(attempt.home)
        if home is not None and home.held.pop(attempt, None) is not None and not home.held:
            del self._homes[attempt.home]
            self._plan()

    def of(self, home: str) -> list[HeldClaim]:
        """Return all claims that are leased from a home."""
        known = self._homes.get(home)
        return list(known.held.values()) if known else []

    def ask_soon(self, home: str, now_s: float) -> None:
        """Send a request to a home that can be reached again: earlier ones may be lost."""
        known = self._homes.get(home)
        if known is not None:
            known.next_ask_s = min(known.next_ask_s, now_s)
            self._plan()

    def _plan(self) -> None:
        """Compute the next time at which a home is to be asked."""
        self.next_s = min((home.next_ask_s for home in self._homes.values()), default=None)

    def due(self, now_s: float) -> list[tuple[str, Renew]]:
        """Return the homes that are to be asked now."""
        asks = []
        for name, home in self._homes.items():
            if home.next_ask_s > now_s:
                continue
            home.asked.append(now_s)
            home.next_ask_s = now_s + max(AGAIN_MIN_S, home.shortest_s * AGAIN_PART)
            unconfirmed = tuple(a for a, held in home.held.items() if not held.is_confirmed)
            asks.append((name, Renew(self._machine, now_s, unconfirmed)))
        self._plan()
        return asks

    def answered(self, renewed: Renewed, now_s: float) -> list[HeldClaim] | None:
        """Handle an answer; return the claims that it confirmed, which may start now.

        Return None if it answers no request of this node.
        """
        home = self._homes.get(renewed.home)
        asked_s = renewed.asked_steady_s
        if home is None or asked_s not in home.asked:
            return None
        while home.asked and home.asked[0] <= asked_s:
            home.asked.popleft()
        home.answered_s = max(asked_s, home.answered_s or 0.0)
        named = dict.fromkeys(renewed.confirmed)
        confirmed = []
        for attempt, held in home.held.items():
            if held.is_confirmed or held.started_wall_s is not None:
                held.renew(asked_s, now_s)
            elif attempt in named:
                held.renew(asked_s, now_s)
                confirmed.append(held)
        if all(held.is_confirmed for held in home.held.values()):
            home.next_ask_s = asked_s + max(AGAIN_MIN_S, home.shortest_s * ASK_PART)
            self._plan()
        return confirmed

    def answers(self) -> Iterator[tuple[str, float]]:
        """Yield each home with the time of its latest answered request."""
        for name, home in self._homes.items():
            if home.answered_s is not None:
                yield name, home.answered_s

    def lapsed(self, now_s: float) -> list[HeldClaim]:
        """Return the expired claims whose start was never ordered.

        For others only the launcher knows whether they run, and it ends them in time.
        """
        return [
            held
            for home in self._homes.values()
            for held in home.held.values()
            if not held.is_ordered and held.end is None and held.has_lapsed(now_s)
        ]


class StayBound(NamedTuple):
    """By when a claim has to be gone, for a booking or with its own."""

    ends_by_s: float
    """On the steady clock."""
    gone_by_wall_s: float | None = None
    """The same on the wall clock, for a booking that starts then."""
    reservation: ReservationId | None = None
    """In whose booking it is; None: in none."""


class Claims:
    """The claims by attempt, in the order of the grants, until their ends are acknowledged."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self.calendar: Calendar[AttemptId] = Calendar(settings.given)
        self.leases = LeaseRenewal(settings.machine)
        self.by_attempt: dict[AttemptId, HeldClaim] = {}
        """All of them; only methods of this class change it."""
        self.waiting: dict[AttemptId, HeldClaim] = {}
        """The claims granted ahead, which hold nothing yet, in the order of arrival."""
        self.holds = Holds(settings.machine)
        """Those that end by themselves unless their homes confirm them."""
        self.suspended: dict[AttemptId, HeldClaim] = {}
        """Those that were ever suspended, and are not over."""
        self.turns: dict[AttemptId, HeldClaim] = {}
        """Those that take turns in time slices, and are not over."""
        self.bound: dict[AttemptId, HeldClaim] = {}
        """Those that have to be gone at a certain time, for a booking or with their own."""
        self._seats: dict[AttemptId, AttemptId] = {}
        """The seat here of each attempt that has several ranks here."""
        self._free_gpu_ids = list(range(settings.capacity.gpus))

    def restore(
        self,
        claims: Iterable[Claim],
        now: Instant,
        ends_by_s: Callable[[Claim], float | None] = lambda _: None,
    ) -> None:
        """Restore the claims from the store; their present state is not known yet.

        `ends_by_s` returns when one has to be gone.
        """
        for claim in claims:
            held = HeldClaim.restored(claim, now, self._settings.end_slack_s)
            held.ends_by_s = ends_by_s(claim)
            self._hold(held, now)
            self._free_gpu_ids = [gpu for gpu in self._free_gpu_ids if gpu not in claim.gpu_ids]
        self.settle_rows()
        self.fit_capacity()

    def fit_capacity(self) -> None:
        """Give away what the machine's pool may have, but no less than is claimed and booked."""
        self.calendar.set_capacity(self._fitting_capacity())

    def _fitting_capacity(self) -> Resources:
        given, held, calendar = self._settings.given, self.held, self.calendar
        memory_bytes = max(given.memory_bytes, held.memory_bytes)
        disk_bytes = max(given.disk_bytes, held.disk_bytes)
        if calendar.bookings and calendar.capacity is not given:  # what was promised stays so
            for span in calendar.bookings:
                held = held.plus(span.resources)
            known = calendar.capacity
            memory_bytes = max(memory_bytes, min(known.memory_bytes, held.memory_bytes))
            disk_bytes = max(disk_bytes, min(known.disk_bytes, held.disk_bytes))
        return given.with_limits(memory_bytes, disk_bytes)

    def promise(self, booked: Resources) -> None:
        """Have no less memory and disk than bookings take: they came when there was more."""
        known = self.calendar.capacity
        memory_bytes = max(known.memory_bytes, booked.memory_bytes)
        disk_bytes = max(known.disk_bytes, booked.disk_bytes)
        self.calendar.set_capacity(known.with_limits(memory_bytes, disk_bytes))

    @property
    def held(self) -> Resources:
        """Return what claims hold, without what open bookings keep free."""
        calendar = self.calendar
        held = calendar.capacity.minus(calendar.free)
        for span in calendar.bookings:
            if span.is_open:
                held = held.minus(calendar.left_in(span.reservation))
        return held

    def __iter__(self) -> Iterator[AttemptId]:
        return iter(self.by_attempt)

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self.by_attempt

    def has_place(self, rank: AttemptId) -> bool:
        """Return whether an attempt, or a rank of it, has a claim here that is not over."""
        return self._seats.get(rank.seat(0), rank) in self.calendar

    def ranks_of(self, seat: AttemptId) -> int:
        """Return how many ranks a seat has; 1 if its home has taken its end."""
        held = self.by_attempt.get(seat)
        return 1 if held is None else held.claim.ranks

    def all(self) -> list[HeldClaim]:
        """Return all claims."""
        return list(self.by_attempt.values())

    def running(self) -> list[AttemptId]:
        """Return the attempts that hold a claim, in the order of the grants."""
        return [attempt for attempt, held in self.by_attempt.items() if held.end is None]

    def live(self, now_s: float) -> list[AttemptId]:
        """Return the claims that may run: their lease, if any, was confirmed and has not expired.

        Claims that a restarted node found count only after their homes have answered.
        """
        return [
            attempt
            for attempt, held in self.by_attempt.items()
            if held.end is None
            and held.claim.phase is Phase.STARTED
            and held.is_confirmed
            and not held.is_lease_over(now_s)
        ]

    def stored(self) -> list[Claim]:
        """Return all claims that a restarted node must find: granted, and not acknowledged.

        Not those that ended before anything was started.
        """
        every = self.by_attempt.values()
        return [held.as_charged() for held in every if held.end is None or held.is_ordered]

    def specs(self) -> list[JobSpec]:
        """Return the specifications of attempts that may still have to be started."""
        return [held.spec for held in self.by_attempt.values() if held.spec and not held.end]

    def grant(
        self,
        run: Run,
        minted_s: float,
        now: Instant,
        *,
        is_ahead: bool = False,
        turn: ClaimedTurn | None = None,
        bound: StayBound | None = None,
    ) -> HeldClaim:
        """Grant the claim of an admitted run; `minted_s` is the time of its capability.

        Its lease begins at once, unless the capability is too old to prove that its home wants it.
        `bound`: by when it has to be gone.
        """
        settings, lease_s = self._settings, run.lease_s
        claim = self._claim(run, now, is_ahead=is_ahead)
        if turn is not None:
            claim = replace(claim, turn=turn)
        held = HeldClaim(
            claim,
            run.spec,
            now.steady_s,
            run.capability,
            end_slack_s=settings.end_slack_s,
        )
        if bound is not None:
            self._bind(held, bound, now)
        if lease_s is not None and now.steady_s < minted_s + lease_s * ASK_PART:
            held.leased_steady_s = minted_s  # of no account while it is only held
        self._hold(held, now)
        if turn is not None:
            self.settle_rows()
        return held

    def _bind(self, held: HeldClaim, bound: StayBound, now: Instant) -> None:
        """Let a new claim be gone by then: inside a booking its own limit ends it in time."""
        claim, limit_s = held.claim, held.claim.limit_s
        held.ends_by_s = bound.ends_by_s
        if bound.reservation is not None:
            left_s = bound.ends_by_s - now.steady_s - held.ending_s
            limit_s = left_s if limit_s is None else min(limit_s, left_s)
        held.claim = replace(
            claim,
            limit_s=limit_s,
            parts=claim.parts if bound.reservation is None else 1,
            gone_by_wall_s=bound.gone_by_wall_s,
            reservation=bound.reservation,
        )

    def resources_of(self, run: Run) -> Resources:
        """Return what a claim holds that is to be made."""
        spec = run.spec
        if spec.exclusive:
            return self.calendar.capacity
        return spec.resources.times(run.ranks) if run.ranks > 1 else spec.resources

    def longest_stay_s(self, run: Run) -> float | None:
        """Return the longest time for which it holds that; None: without end."""
        spec, queues = run.spec, self._settings.queues
        parts = queues.parts_of(spec) if queues.modes else 1
        slack_s = self._settings.end_slack_s
        if run.phase is not Phase.STARTED:  # a usual hold is within the slack of ends
            slack_s += max(0.0, run.hold_s - HOLD_S)
        return longest_stay_s(spec.time_limit_s, spec.kill_grace_s, slack_s, parts=parts)

    def _claim(self, run: Run, now: Instant, *, is_ahead: bool) -> Claim:
        spec, queues = run.spec, self._settings.queues
        resources = self.resources_of(run)
        gpu_ids = tuple(self._free_gpu_ids[: resources.gpus])
        del self._free_gpu_ids[: resources.gpus]
        claim = Claim(
            run.attempt,
            spec.account,
            spec.user,
            resources,
            spec.time_limit_s,
            spec.urgency,
            now.wall_s,
            gpu_ids,
            self._settings.boot_id,
            spec.kill_grace_s,
            lease_s=run.lease_s,
            is_ahead=is_ahead,
            ranks=run.ranks,
            queue=spec.queue,
            parts=queues.parts_of(spec) if queues.modes else 1,
            no_suspend=spec.no_suspend,
            checkpoint_exit=spec.checkpoint_exit,
        )
        if run.phase is Phase.STARTED:
            return claim
        return replace(claim, phase=run.phase, held_until_wall_s=now.wall_s + run.hold_s)

    def raise_phase(self, held: HeldClaim, phase: Phase, now: Instant) -> None:
        """Note that a home confirmed a claim that was held, or starts it.

        Its lease begins with its hold: the home asked for this after it had heard of that.
        """
        claim = held.claim
        if claim.phase is Phase.HELD:
            self.holds.confirmed(claim.attempt)
            port = 0 if claim.attempt.rank else self._settings.free_port()
            claim = replace(claim, port=port)
        held.claim = replace(claim, phase=phase)
        if claim.phase is not Phase.HELD:
            return
        held.confirmed_steady_s = now.steady_s
        if claim.lease_s is not None:
            began_s = held.granted_steady_s
            is_known = held.capability is not None  # that time, which a restart makes a guess
            is_young = now.steady_s < began_s + claim.lease_s * ASK_PART
            held.leased_steady_s = began_s if is_known and is_young else None
            self.leases.add(held, now.steady_s)

    def _hold(self, held: HeldClaim, now: Instant) -> None:
        claim = held.claim
        if claim.is_ahead:
            self.waiting[claim.attempt] = held
        else:
            stay_s = held.stay_left_s(now)
            self.calendar.add(claim.attempt, claim.kept, now.steady_s, stay_s, claim.reservation)
        self.by_attempt[claim.attempt] = held
        if held.ends_by_s is not None:
            self.bound[claim.attempt] = held
        if claim.turn is not None:
            self.turns[claim.attempt] = held
        if held.suspension is not None:
            self.suspended[claim.attempt] = held
        if claim.ranks > 1:
            self._seats[claim.attempt.seat(0)] = claim.attempt
        if claim.phase is Phase.HELD:
            left_s = min(HOLD_MAX_S, max(0.0, claim.held_until_wall_s - now.wall_s))
            self.holds.add(claim.attempt, now.steady_s + left_s)
        elif claim.lease_s is not None:
            self.leases.add(held, now.steady_s)

    def started(self, held: HeldClaim, now: Instant) -> None:
        """Let a claim have its place for longer if it starts long after its grant."""
        attempt = held.claim.attempt
        stay_s = held.stay_left_s(now)
        if stay_s is None or attempt not in self.calendar:
            return
        if now.steady_s + stay_s > self.calendar.end_s(attempt) + LATER_S:
            kept = self.calendar.held_by(attempt)
            self.calendar.change(attempt, kept, now.steady_s, stay_s)

    def suspension_changed(self, held: HeldClaim, now: Instant) -> None:
        """Let a claim hold what it keeps now that its suspension changed, until its new end."""
        claim, suspension = held.claim, held.suspension
        stored = None if suspension is None else suspension.stored(now)
        claim = held.claim = replace(claim, suspension=stored)
        self.suspended[claim.attempt] = held
        if not claim.is_ahead:
            stay_s = held.stay_left_s(now)
            self.calendar.change(claim.attempt, claim.kept, now.steady_s, stay_s)
            if self.turns:
                self.settle_rows()

    # --- time slices -----------------------------------------------------------------------------

    def turn_changed(self, held: HeldClaim, now: Instant) -> None:
        """Note the turn of a claim."""
        claim = held.claim
        is_placed = not claim.is_ahead
        if claim.turn is not None:
            self.turns[claim.attempt] = held
        elif self.turns.pop(claim.attempt, None) is not None and is_placed:
            self.calendar.resize(claim.attempt, claim.kept)
        if not is_placed:
            return
        stay_s = held.stay_left_s(now)
        self.calendar.change(claim.attempt, claim.kept, now.steady_s, stay_s)

    def settle_rows(self) -> None:
        """Let the calendar hold the most of any row of what takes turns."""
        holdings = [
            Holding(attempt, held.wanted_cpus, held.turn.needed, self.calendar.end_s(attempt))
            for attempt, held in self.turns.items()
            if attempt in self.calendar and not held.is_preempted
        ]
        held_now = held_cpus(holdings)
        for attempt, cpus in held_now.items():
            resources = self.turns[attempt].claim.resources
            wanted = resources.with_cpus(cpus)
            if wanted != self.calendar.held_by(attempt):
                self.calendar.resize(attempt, wanted)

    def free_for(self, held: HeldClaim) -> int:
        """Return the cpus that are free for more of a claim, in its time slices."""
        if held.claim.reservation is not None:
            return self.calendar.left_in(held.claim.reservation).cpus
        return self.calendar.free.cpus if held.claim.turn is None else self.free_in(held.turn)

    def free_in(self, turn: RowSet) -> int:
        """Return the cpus that are free in each row of a turn."""
        loads = [0] * turn.rows
        for attempt, held in self.turns.items():
            if attempt in self.calendar and not held.is_preempted:
                for row in range(turn.rows):
                    if held.turn.needed >> row & 1:
                        loads[row] += held.wanted_cpus
        if not turn.mask:
            return 0
        most = max(load for row, load in enumerate(loads) if turn.mask >> row & 1)
        return self.calendar.free.cpus + max(loads) - most

    # --- granted ahead ---------------------------------------------------------------------------

    @property
    def followable(self) -> Resources:
        """Return the resources of running claims for which no claim granted ahead waits."""
        claimed = self.held
        for held in self.waiting.values():
            claimed = claimed.minus(held.claim.resources)
        return claimed

    @property
    def give_back_s(self) -> float:
        """Return the steady time at which the first of `waiting` has waited too long."""
        return next(iter(self.waiting.values())).granted_steady_s + AHEAD_WAIT_S

    def begin(self, held: HeldClaim, now: Instant) -> None:
        """Give a claim that waited its place."""
        claim = held.claim = replace(held.claim, is_ahead=False)
        held.granted_steady_s = now.steady_s
        del self.waiting[claim.attempt]
        self.calendar.add(claim.attempt, claim.resources, now.steady_s, held.stay_left_s(now))

    # --- ends ------------------------------------------------------------------------------------

    def free(self, claim: Claim) -> None:
        """Release the resources of an attempt that is over."""
        if self.waiting.pop(claim.attempt, None) is None:
            self.calendar.remove(claim.attempt)
            if self.calendar.capacity is not self._settings.given:
                self.fit_capacity()
        if claim.suspension is not None:
            self.suspended.pop(claim.attempt, None)
        if self.bound:
            self.bound.pop(claim.attempt, None)
        if self.turns:
            self.turns.pop(claim.attempt, None)
            self.settle_rows()
        if claim.ranks > 1:
            self._seats.pop(claim.attempt.seat(0), None)
        if claim.phase is Phase.HELD:
            self.holds.remove(claim.attempt)
        elif claim.lease_s is not None:
            self.leases.remove(claim.attempt)
        if claim.gpu_ids:
            gpus = self.calendar.capacity.gpus
            # A machine that came back with fewer gpus has no use for the others.
            self._free_gpu_ids = sorted(
                [*self._free_gpu_ids, *(gpu for gpu in claim.gpu_ids if gpu < gpus)]
            )

    def drop(self, attempt: AttemptId) -> None:
        """Forget an attempt."""
        del self.by_attempt[attempt]

    def check(self) -> None:
        """Raise if invariant (a) is broken, or its conditions."""
        self.calendar.check()
        capacity = self._fitting_capacity()
        assert self.calendar.capacity == capacity, f"jobs may have {self.calendar.capacity}"
        gpu_ids = list(self._free_gpu_ids)
        for attempt, held in self.by_attempt.items():
            is_waiting = attempt in self.waiting
            assert is_waiting == (held.claim.is_ahead and held.end is None), f"{attempt}: ahead"
            assert not (is_waiting and held.started_wall_s), f"{attempt} runs without a place"
            is_there = attempt in self.calendar or is_waiting
            assert is_there == (held.end is None), f"{attempt}: claim and end"
            is_held = held.claim.phase is Phase.HELD and held.end is None
            assert is_held == (attempt in self.holds), f"{attempt}: hold"
            assert not (held.is_ordered and not held.may_start), f"{attempt} has no start"
            assert len(held.claim.gpu_ids) == held.claim.resources.gpus, f"{attempt}: gpus"
            if held.end is None:
                gpu_ids += held.claim.gpu_ids
        claims = len(self.calendar) + len(self.waiting)
        assert claims == len(self.running()), "a claim that nobody holds"
        assert sorted(gpu_ids) == list(range(self.calendar.capacity.gpus)), f"gpus {gpu_ids}"

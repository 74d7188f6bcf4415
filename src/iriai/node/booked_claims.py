"""The claims of a node beside its bookings and inside them (docs/spec/017, sections 3 and 6)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from iriai.model.claim import Claim
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.records import ClaimStored
from iriai.model.reservation import EVICTABLE_MIN_S, has_used
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.units import format_duration
from iriai.node.attempt_ends import AttemptEnds
from iriai.node.claims import StayBound
from iriai.node.metering import SLICE_S, HeldClaim
from iriai.node.reservations.kept_booking import Ahead
from iriai.node.settings import NodeSettings
from iriai.node.suspending.suspended_claims import QueueParts
from iriai.policy.placement.calendar import AHEAD_WAIT_S
from iriai.protocol.messages.effects import Part, Persist, Send, TerminateAttempt
from iriai.protocol.messages.scheduling import Run, Stop

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import BookedSpan

LIMIT_MIN_S = 1.0
"""The shortest time for which a task starts inside a booking."""


FirstAhead = Callable[[float], Ahead | None]
"""Returns the booking that starts at a moment, or has but is not open; None: there is none."""


class Beside(NamedTuple):
    """How long a claim could last beside all bookings."""

    fitting_s: float
    ahead: Ahead | None
    """The booking before which it would have to end."""


class BookedClaims:
    """Grants claims beside bookings and inside them, and has them leave in time."""

    def __init__(self, settings: NodeSettings, parts: QueueParts, ends: AttemptEnds) -> None:
        self._machine, self._slack_s = settings.machine, settings.end_slack_s
        self.claims, self.report, self.effects = parts.claims, parts.report, parts.effects
        self._calendar = parts.claims.calendar
        self._parts = parts
        self._ends = ends

    # --- what may start --------------------------------------------------------------------------

    def beside(
        self, run: Run, first_ahead: FirstAhead, now: Instant, *, takes_turns: bool
    ) -> Reason | StayBound | None:
        """Return why a claim may not last until its latest end; how it may be bound; None: it may.

        There is room for it now.
        """
        stay_s = self.claims.longest_stay_s(run)
        if takes_turns:  # what it holds depends on what else does
            found = self._before_all(first_ahead, now)
        else:
            found = self._fitting(self.claims.resources_of(run), first_ahead, now)
        bound = self._bound(found, stay_s, run.spec.kill_grace_s, now)
        if bound is None:
            return None
        ahead, spec = found.ahead, run.spec
        if bound is not _TOO_SHORT and spec.is_evictable:
            return bound
        if ahead is None:
            had = "an open reservation has some of it"
            return Reason(Rule.RESERVED_AHEAD, "the whole machine", had, self._machine)
        return self._reserved_ahead(ahead, stay_s, found.fitting_s - self._ending_s(run), now)

    def of_waiting(self, held: HeldClaim, first_ahead: FirstAhead, now: Instant) -> Reason | None:
        """Return why a claim that was granted ahead may not begin now; None: it may."""
        stay_s = held.longest_stay_s
        found = self._fitting(held.claim.resources, first_ahead, now)
        if found.ahead is None or (stay_s is not None and stay_s <= found.fitting_s):
            return None
        return self._reserved_ahead(found.ahead, stay_s, found.fitting_s - held.ending_s, now)

    def behind(self, run: Run, first_ahead: FirstAhead, now: Instant) -> Reason | None:
        """Return why a claim may not be granted ahead of its place; None: it may."""
        stay_s = self.claims.longest_stay_s(run)
        found = self._before_all(first_ahead, now)
        left_s = found.fitting_s - AHEAD_WAIT_S
        if found.ahead is None or (stay_s is not None and stay_s <= left_s):
            return None
        return self._reserved_ahead(found.ahead, stay_s, left_s - self._ending_s(run), now)

    def _fitting(self, resources: Resources, first_ahead: FirstAhead, now: Instant) -> Beside:
        fitting_s = self._calendar.fitting_s(resources, now.steady_s)
        return Beside(
            fitting_s, None if fitting_s == inf else first_ahead(now.steady_s + fitting_s)
        )

    def _before_all(self, first_ahead: FirstAhead, now: Instant) -> Beside:
        """Return how long nothing is booked that is not open yet."""
        starts = [span.start_s for span in self._calendar.bookings if not span.is_open]
        if not starts:
            return Beside(inf, None)
        start_s = min(starts)
        return Beside(max(0.0, start_s - now.steady_s), first_ahead(start_s))

    def _bound(
        self, found: Beside, stay_s: float | None, grace_s: float, now: Instant
    ) -> StayBound | None:
        """Return how a claim is bound that would last for `stay_s`; None: it need not be."""
        if found.fitting_s == inf or (stay_s is not None and stay_s <= found.fitting_s):
            return None
        least_s = EVICTABLE_MIN_S + grace_s + self._slack_s
        if found.fitting_s < least_s or found.ahead is None:
            return _TOO_SHORT
        return StayBound(
            found.ahead.start_s - self._slack_s,
            found.ahead.start_wall_s - self._slack_s,
        )

    def _ending_s(self, run: Run) -> float:
        return run.spec.kill_grace_s + self._slack_s

    def _reserved_ahead(
        self, ahead: Ahead, stay_s: float | None, fitting_s: float, now: Instant
    ) -> Reason:
        """Return that a reservation comes first, and the limit with which a task would fit."""
        starts_in_s = ahead.start_s - now.steady_s
        when = f"in {format_duration(starts_in_s)}" if starts_in_s > 0.0 else "now"
        lasts = "without end" if stay_s is None else f"for {format_duration(stay_s)}"
        fits = f"; {format_duration(fitting_s)} would fit" if fitting_s >= LIMIT_MIN_S else ""
        return Reason(
            Rule.RESERVED_AHEAD,
            f"to end before {ahead.reservation} begins {when}",
            f"it may stay {lasts}{fits}",
            self._machine,
        )

    def limit_inside_s(self, run: Run, end_s: float, now: Instant) -> float:
        """Return for how long a task could run inside a booking that ends then; 0.0: not at all."""
        left_s = end_s - now.steady_s - self._ending_s(run)
        return left_s if left_s >= LIMIT_MIN_S else 0.0

    def cut(self, held: HeldClaim, now: Instant) -> None:
        """Cut the limit of a claim inside to what is left of its booking, before it starts."""
        if held.claim.reservation is not None and held.ends_by_s is not None:
            most_s = max(LIMIT_MIN_S, held.ends_by_s - now.steady_s - held.ending_s)
            limit_s = held.claim.limit_s
            limit_s = most_s if limit_s is None else min(limit_s, most_s)
            if limit_s != held.claim.limit_s:
                held.claim = replace(held.claim, limit_s=limit_s)
                self.effects.append(Persist(ClaimStored(held.as_charged())))

    def measured(self, held: HeldClaim, cpu_s: float, now: Instant) -> None:
        """Tell the home of a claim inside whether it has used its cpus, once it ran for a while."""
        spec, started_s = held.spec, held.started_steady_s
        if spec is None or started_s is None or now.steady_s < started_s + SLICE_S:
            return
        cpus = spec.resources.cpus if spec.exclusive else held.claim.resources.cpus
        held.is_used = has_used(cpu_s, cpus, now.steady_s - started_s)
        told = held.last_message(self._machine)
        self.effects.append(Send(held.claim.attempt.home, Part.HOME, told))

    # --- what has to leave -----------------------------------------------------------------------

    @property
    def ending_max_s(self) -> float:
        """Return how long it takes at most until a claim that is to end has left its place."""
        live = (held.ending_s for held in self.claims.by_attempt.values() if held.end is None)
        return max(live, default=0.0)

    def clear_for(self, span: BookedSpan, now: Instant) -> float:
        """Evict what is in the way of a booking and takes until its start to end.

        Return when to look again; infinity: nothing has to leave later than now.
        """
        next_s = inf
        for attempt in self._calendar.in_the_way(span, self._since_s):
            held = self.claims.by_attempt[attempt]
            at_s = span.start_s - held.ending_s
            if at_s <= now.steady_s:
                self._evict(held, span.reservation)
            else:
                next_s = min(next_s, at_s)
        return next_s

    def _since_s(self, attempt: object) -> float:
        """Return since when a claim has its place: it was granted then, or went on then."""
        held: HeldClaim | None = self.claims.by_attempt.get(attempt)  # type: ignore[call-overload]
        if held is None:
            return 0.0
        suspension = held.suspension
        if suspension is None or suspension.told:
            return held.granted_steady_s
        return max(held.granted_steady_s, suspension.changed_s)

    def see_to_ends(self, now: Instant) -> float:
        """End claims that have to be gone soon; return when the next one has to be ended."""
        next_s = inf
        for held in list(self.claims.bound.values()):
            if held.stop is not None or held.ends_by_s is None:
                continue
            # Inside, its own limit ends it: this is for what was suspended, or after a step.
            early_s = 0.0 if held.claim.reservation is None else self._slack_s / 2
            at_s = held.ends_by_s - held.claim.grace_s - early_s
            if at_s > now.steady_s:
                next_s = min(next_s, at_s)
            elif held.claim.reservation is None:
                self._evict(held, None)
            else:
                self._end_inside(held, held.claim.reservation)
        return next_s

    def _evict(self, held: HeldClaim, reservation: ReservationId | None) -> None:
        """Have a claim leave for a booking, unless it is being ended already."""
        if held.end is not None or held.stop is not None:
            return
        named = "a reservation" if reservation is None else f"reservation {reservation}"
        if held.is_ordered:
            self._parts.suspensions.evict(held, f"{named} begins")
        else:
            reason = Reason(Rule.RESERVED_AHEAD, "", f"{named} begins", self._machine)
            self._ends.refuse(held, reason)

    def _end_inside(self, held: HeldClaim, reservation: ReservationId) -> None:
        if held.end is not None or held.stop is not None:
            return
        attempt, words = held.claim.attempt, f"reservation {reservation} ends"
        if not held.is_ordered:
            self._ends.refuse(held, Reason(Rule.NOT_RESERVED, "", words, self._machine))
            return
        cause, grace_s = EndCause.TIME_LIMIT, held.claim.grace_s
        held.stop = Stop(attempt, cause, grace_s)
        self.effects.append(TerminateAttempt(attempt, cause, grace_s, words))

    def outside_reason(self, reservation: ReservationId) -> Reason:
        """Return why a task of a reservation does not start: its booking is gone."""
        needed, had = f"a booking of {reservation}", "it is over, or was given back"
        return Reason(Rule.NOT_RESERVED, needed, had, self._machine)

    # --- bookings that change --------------------------------------------------------------------

    def bind_anew(self, ends_by_s: Callable[[Claim], float | None], now: Instant) -> None:
        """Let claims be gone when they have to by the clocks as they are now."""
        for held in list(self.claims.bound.values()):
            held.ends_by_s = ends_by_s(held.claim)
            self._place(held, now)
            self.report.changed(held.claim.attempt)
        self.claims.settle_rows()

    def close(self, reservation: ReservationId, now: Instant) -> None:
        """Let what is inside a booking that is over be ended as ordinary claims."""
        for held in self._inside(reservation):
            self._end_inside(held, reservation)
        self.give_back(reservation, now)

    def give_back(self, reservation: ReservationId, now: Instant) -> None:
        """Let what is inside a booking go on as ordinary claims, with the limits that it has.

        These end before the booking would have, so they fit beside all others. What has not started
        never does.
        """
        for held in self._inside(reservation):
            if not held.is_ordered:
                self._ends.refuse(held, self.outside_reason(reservation))
                continue
            held.claim = replace(held.claim, reservation=None)
            held.ends_by_s = None
            self.claims.bound.pop(held.claim.attempt, None)
            self._calendar.leave(held.claim.attempt)
            self._place(held, now)
            self._parts.changed(held)

    def extend(self, first_ahead: FirstAhead, now: Instant) -> None:
        """Let claims that were to leave for a booking stay as long as they may without it."""
        for held in list(self.claims.bound.values()):
            claim = held.claim
            if claim.gone_by_wall_s is None or held.stop is not None or held.end is not None:
                continue
            before_s, held.ends_by_s = held.ends_by_s, None
            holds = self._calendar.held_by(claim.attempt)  # of a turn less than it needs
            self._calendar.remove(claim.attempt)
            if claim.turn is None:
                found = self._fitting(holds, first_ahead, now)
            else:  # what it holds depends on what else does
                found = self._before_all(first_ahead, now)
            bound = self._bound(found, held.stay_left_s(now), claim.grace_s, now)
            if bound is None:
                held.claim = replace(claim, gone_by_wall_s=None)
                del self.claims.bound[claim.attempt]
            elif bound is _TOO_SHORT or (before_s is not None and bound.ends_by_s <= before_s):
                held.ends_by_s = before_s
            else:
                held.ends_by_s = bound.ends_by_s
                held.claim = replace(claim, gone_by_wall_s=bound.gone_by_wall_s)
            stay_s = held.stay_left_s(now)
            self._calendar.add(claim.attempt, holds, now.steady_s, stay_s)
            if held.claim is not claim:
                self.effects.append(Persist(ClaimStored(held.as_charged())))
                self.report.changed(claim.attempt)
        self.claims.settle_rows()  # they hold what their ends free

    def _inside(self, reservation: ReservationId) -> list[HeldClaim]:
        bound = self.claims.bound.values()
        return [held for held in bound if held.claim.reservation == reservation]

    def _place(self, held: HeldClaim, now: Instant) -> None:
        """Let the calendar know until when a claim stays."""
        attempt = held.claim.attempt
        if attempt in self._calendar:
            kept = self._calendar.held_by(attempt)
            self._calendar.change(attempt, kept, now.steady_s, held.stay_left_s(now))


_TOO_SHORT = StayBound(0.0)

"""Admission of claims on a node: its capability, the rules, what is free."""

from __future__ import annotations

from typing import NamedTuple

from iriai.model.claim import Phase
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.node.bookings import NodeBookings
from iriai.node.claims import Claims, StayBound
from iriai.node.offer_builder import Availability, OfferBuilder
from iriai.node.requirements_check import RequirementsCheck
from iriai.node.settings import NodeSettings
from iriai.node.suspending.cycle import NodeCycle
from iriai.protocol.messages.scheduling import Capability, Run, TurnedAway


class Granted(NamedTuple):
    """The decision to grant a claim."""

    minted_s: float
    """The steady time at which the capability of the grant was minted."""
    is_ahead: bool = False
    """True if the claim was granted ahead and waits for a place."""
    bound: StayBound | None = None
    """By when it has to be gone, for a booking or with its own; None: it need not."""


class Admission:
    """Grants a claim, or refuses it with the reason; it never defers."""

    def __init__(
        self,
        settings: NodeSettings,
        claims: Claims,
        availability: Availability,
        report: OfferBuilder,
        agreement: RequirementsCheck,
        cycle: NodeCycle,
        bookings: NodeBookings,
    ) -> None:
        self._judge_user = settings.judge_user
        self._machine = settings.machine
        self._claims = claims
        self._calendar = claims.calendar
        self._availability = availability
        self._report = report
        self._agreement = agreement
        self._cycle, self._bookings = cycle, bookings

    def judge(self, run: Run, now: Instant) -> Reason | Granted:
        """Return why the claim is refused, or how it is granted."""
        wall_s = now.wall_s
        if run.phase is not Phase.STARTED or run.seats:
            refused = self._judge_phase(run, now.steady_s)
            if refused is not None:
                return refused
        granted = self._redeemed(run.capability)
        if granted is None:
            return Reason(
                Rule.STALE_CAPABILITY,
                "a capability of this incarnation, not used before",
                f"{run.capability}",
                self._machine,
            )
        home, user = run.attempt.home, run.spec.user
        is_own = home == self._machine  # then it was decided at submission
        words = "" if is_own else self._judge_user(home, user, wall_s)
        if words:
            assert run.capability is not None, "an unused capability was issued earlier"
            self._report.turned_away(TurnedAway(run.capability, home, user, words))
            whom = "a home and a user whose tasks the machine runs"
            return Reason(Rule.USER_NOT_ALLOWED, whom, words, self._machine)
        in_use = self._availability.in_use_for(user)
        if in_use is not None and run.capability is not None:
            away = TurnedAway(run.capability, home, user, in_use.had, is_in_use=True)
            self._report.turned_away(away)
            return in_use
        reason = self._availability.reason()
        placed = reason or self._placed(run, granted, now)
        if isinstance(placed, Reason):
            return placed
        return self._agreement.lacks(run.spec, wall_s) or placed

    def _placed(self, run: Run, granted: Granted, now: Instant) -> Reason | Granted:
        """Return why there is no place for a claim, or how it is granted."""
        if run.spec.reservation is not None:
            refused = self._bookings.judge(run, now)
            bound = None if refused else self._bookings.bound_inside(run.spec.reservation)
            return refused or Granted(granted.minted_s, bound=bound)
        offered = self._report.capabilities
        reason = self._lacks(run)
        if reason is None:
            if self._calendar.bookings:
                takes_turns = bool(self._cycle.matched) and self._cycle.turn_of(run) is not None
                beside = self._bookings.beside(run, now, takes_turns=takes_turns)
                if isinstance(beside, Reason):
                    return beside
                granted = granted._replace(bound=beside)
            if granted.is_ahead:  # its resources are free by now
                offered.overtake()
                granted = granted._replace(is_ahead=False)
            return granted
        if run.phase is Phase.STARTED and (
            granted.is_ahead or (run.capability and offered.is_overtaken(run.capability))
        ):
            reason = self._lacks_behind(run)
            if reason is None and self._calendar.bookings:
                reason = self._bookings.behind(run, now)
            granted = granted._replace(is_ahead=True)
        return reason or granted

    def _judge_phase(self, run: Run, now_s: float) -> Reason | None:
        """Return why a run of one of several seats that is not here is refused; None: it is not.

        A home confirms only what it was told is held: so such a claim was held here, and freed.
        """
        if run.phase is Phase.HELD:
            return self._claims.holds.refusal(run.attempt.home, now_s)
        needed = "to be confirmed while it is held"
        return Reason(Rule.HOLD_EXPIRED, needed, "it is not held", self._machine)

    def _redeemed(self, capability: Capability | None) -> Granted | None:
        """Return what a capability permits; None: nothing.

        A home sends a `Run` without one for an attempt that is unknown here. Its first `Run` may
        still be in transit, with a capability: from now on that is refused too.
        """
        if capability is None:
            for voided in (*self._report.capabilities.void(), *self._report.ahead.void()):
                self._report.spent(voided)
            return None
        self._report.spent(capability)
        minted_s = self._report.capabilities.redeem(capability)
        if minted_s is not None:
            return Granted(minted_s)
        minted_s = self._report.ahead.redeem(capability)
        return None if minted_s is None else Granted(minted_s, is_ahead=True)

    def _lacks(self, run: Run) -> Reason | None:
        if run.spec.exclusive and len(self._calendar):
            running = f"{len(self._calendar)} tasks run"
            return Reason(Rule.MACHINE_BUSY, "an empty machine", running, self._machine)
        needed = run.spec.resources
        if run.ranks > 1:
            needed = needed.times(run.ranks)
        free = self._cycle.room_for(run) if self._cycle.matched else self._calendar.free
        return self._short_of(needed, free, "free")

    def _lacks_behind(self, run: Run) -> Reason | None:
        """Return why a claim cannot be granted ahead: at most one is for each running task."""
        spec = run.spec
        if spec.exclusive or spec.resources.gpus:
            had = "it needs the whole machine" if spec.exclusive else "it needs a GPU"
            return Reason(Rule.MACHINE_BUSY, "a task that can be prefetched", had, self._machine)
        return self._short_of(
            spec.resources.times(run.ranks),
            self._claims.followable,
            "tasks that hold resources to wait for",
        )

    def _short_of(self, needed: Resources, there: Resources, where: str) -> Reason | None:
        if needed.fits_in(there):
            return None
        resource, amount, had = needed.lacking_in(there)[0]
        return Reason(
            Rule.MACHINE_BUSY,
            describe_amount(resource, amount),
            f"{describe_amount(resource, had)} {where}",
            self._machine,
        )

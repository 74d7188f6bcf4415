"""The reservations of a home: what clients ask of them, and how they open and end."""

from __future__ import annotations

from math import ceil, inf
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iriai.home.reservations.jobs_inside import JobsInside
from iriai.home.reservations.modification import Modification, next_problem, standing_problem
from iriai.home.reservations.negotiation import Negotiation
from iriai.home.reservations.replacement import Replacement
from iriai.home.reservations.stored_reservations import StoredReservations
from iriai.model.ids import Account, ReservationId, occurrence_number
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.model.reservation import (
    DEFAULT_LIMITS,
    Repetition,
    Reservation,
    ReservationEnd,
    ReservationLimits,
    ReservationState,
    ReservationTerms,
    over_text,
    terms_problem,
)
from iriai.model.reservation_news import Notification
from iriai.protocol.messages.effects import Effect
from iriai.protocol.messages.reservations import ReservationToHome

if TYPE_CHECKING:
    from iriai.home.reservations.occurrence import Expand
    from iriai.home.reservations.repeated import RepeatedReservations

WALL_CHECK_S = 600.0
"""A time of the wall clock is looked at again so often: the clock may be set meanwhile."""
NO_SHOW_LOOK_S = 60.0
"""How often it is looked at whether a task that has a claim uses it after all, and how long
machines have after a restart of the home to tell what runs."""


class HomeReservations:
    """The reservations that were asked for on this machine."""

    def __init__(
        self,
        home: str,
        reservations: dict[int, Reservation],
        next_number: int,
        effects: list[Effect],
        rng: Random | None = None,
        limits: ReservationLimits = DEFAULT_LIMITS,
        expand: Expand | None = None,
    ) -> None:
        """`reservations` has them by number, ascending, and is changed here.

        `rng` draws the pauses before further tries; without one they are as long as they may be.
        `expand` returns the occurrences of a rule; None: those of RFC 5545.
        """
        self._stored = StoredReservations(home, reservations, next_number, effects, limits)
        self._unused: dict[int, None] = {}
        """Those that no task has used in time, as far as is known."""
        self._looks_from_s = -inf
        """From when on that is known, by the steady clock: machines tell it after a restart."""
        self._negotiation = Negotiation(self._stored, effects, rng)
        self._modification = Modification(self._stored, self._negotiation, effects, rng)
        parts = (self._stored, self._negotiation, self._modification)
        self._replacement = Replacement(*parts)
        self._expand = expand
        self._repeated: RepeatedReservations | None = None
        """None: there is no series, and never was since the last restart."""
        if any(each.state is ReservationState.REPEATING for each in reservations.values()):
            self._repeated = self._series

    @property
    def next_number(self) -> int:
        """Return the number of the next reservation."""
        return self._stored.next_number

    # --- requests of clients ---------------------------------------------------------------------

    def ask(
        self, terms: ReservationTerms, now: Instant, notification: Notification | None = None
    ) -> ReservationId:
        """Seek nodes for a reservation; `ReservationAnswered` follows.

        Raises `UsageProblem` or `Refused` if it can never be, or the account has too many.
        """
        self._advance(now)
        limits = self._stored.limits
        problem = terms_problem(terms, now.wall_s, limits.horizon_s)
        if problem is not None:
            raise problem
        self._check_count(terms.account)
        number = self._stored.new_number()
        asked_wall_s = now.wall_s
        self._stored.store(
            Reservation(number, 1, terms, asked_wall_s=asked_wall_s, notification=notification)
        )
        self._negotiation.begin(number, now)
        return self._stored.named(number)

    def ask_every(
        self,
        terms: ReservationTerms,
        rule: str,
        zone: str,
        now: Instant,
        notification: Notification | None = None,
    ) -> tuple[ReservationId, ReservationId | None]:
        """Begin a series; return its name, and that of the first occurrence if it is sought now.

        `ReservationAnswered` follows for that. Raises as `ask`, and `UsageProblem` for a rule, a
        zone or a first local time that is none.
        """
        self._advance(now)
        terms, _ = self.plan_every(terms, rule, zone, 1, now)
        self._check_count(terms.account)
        number = self._series.ask(terms, Repetition(rule, zone), now, notification)
        first = occurrence_number(number, 1)
        is_made = first in self._stored.by_number
        return self._stored.named(number), self._stored.named(first) if is_made else None

    def plan_every(
        self, terms: ReservationTerms, rule: str, zone: str, count: int, now: Instant
    ) -> tuple[ReservationTerms, list[float]]:
        """Return the terms of the first occurrence, and when the first `count` would begin.

        Nothing is kept. Raises as `ask_every`.
        """
        start_wall_s = float(ceil(terms.start_wall_s))
        end_wall_s = start_wall_s + terms.length_s
        terms = replace(terms, start_wall_s=start_wall_s, end_wall_s=end_wall_s)
        if terms.is_earliest:
            hint = "give -s TIME: each occurrence begins at that time of day"
            raise UsageProblem("two-starts", "--every does not go with --earliest", hint)
        problem = terms_problem(terms, now.wall_s, inf)
        if problem is not None:
            raise problem
        return self._series.plan(terms, rule, zone, count)

    @property
    def _series(self) -> RepeatedReservations:
        """Return the series of this home, which few have."""
        if self._repeated is None:
            from iriai.home.reservations.recurrence import occurrences
            from iriai.home.reservations.repeated import RepeatedReservations

            expand = self._expand or occurrences
            self._repeated = RepeatedReservations(self._stored, self._negotiation, expand)
        return self._repeated

    def following(self, number: int, count: int) -> list[float]:
        """Return when the next occurrences of a series begin that were not made yet."""
        return [] if self._repeated is None else self._repeated.following(number, count)

    def _check_count(self, account: Account) -> None:
        """Check how many an account has; a series counts as one, with all its occurrences."""
        limits = self._stored.limits
        counted = (r for r in self.all() if r.terms.account == account and not r.is_occurrence)
        if sum(1 for _ in counted) >= limits.count_max:
            most = f"at most {limits.count_max} reservations that are not over"
            hint = "cancel one of them; list them with iriai reservations"
            if not limits.count_max:
                hint = "ask an operator to set [reservations] count_max"
            what = f"{account} may have {most}"
            raise Refused("too-many-reservations", what, hint)

    def check_stands(self, number: int, now: Instant) -> None:
        """Raise `NotFound` or `Refused` if one cannot be modified, whatever its terms would be."""
        self._advance(now)
        problem = standing_problem(self._stored.named(number), self.get(number))
        if problem is not None:
            raise problem

    def check_change(self, number: int, terms: ReservationTerms, now: Instant) -> None:
        """Raise `NotFound`, `UsageProblem` or `Refused` if one can never have these terms."""
        self._advance(now)
        named, horizon_s = self._stored.named(number), self._stored.limits.horizon_s
        problem = next_problem(named, self.get(number), terms, now, horizon_s)
        if problem is not None:
            raise problem

    def modify(self, number: int, terms: ReservationTerms, now: Instant) -> None:
        """Seek nodes for these terms of one that stands; `ReservationAnswered` follows.

        It stays as it is if there are none. Raises `NotFound`, `UsageProblem` or `Refused` if it
        can never have them.
        """
        self.check_change(number, terms, now)
        named = self._stored.named(number)
        if self._modification.is_busy(number):
            what = f"{named} is being modified already"
            raise Refused("being-modified", what, "try again in a moment")
        self._modification.end_replacement(number, now)
        self._modification.seek(number, replace(terms, is_earliest=False), now)

    def cancel(self, number: int, by: str, now: Instant) -> Reservation:
        """Give a reservation back, whether it is open or not; return it as it is now.

        Raises `NotFound`, and `Refused` if it is over.
        """
        return self._give_back(number, ReservationEnd.CANCELLED, by, now)

    def end(self, number: int, by: str, now: Instant) -> Reservation:
        """Give back what is left of an open one; raise as `cancel`, and `Refused` for others."""
        self._advance(now)
        reservation = self._live(number)
        if reservation.state is not ReservationState.OPEN:
            what = f"{self._stored.named(number)} is not open: it is {reservation.state}"
            raise Refused(
                "not-open", what, f"iriai reservation cancel {self._stored.named(number)}"
            )
        return self._give_back(number, ReservationEnd.ENDED, by, now)

    def get(self, number: int) -> Reservation:
        """Return a reservation, also one that is over; raise `NotFound` if there is none."""
        reservation = self._stored.by_number.get(number)
        if reservation is None:
            hint = "list them with iriai reservations"
            missing = f"there is no reservation {self._stored.named(number)}"
            raise NotFound("no-such-reservation", missing, hint)
        return reservation

    def all(self, *, over: bool = False) -> list[Reservation]:
        """Return those that are not over, by number; with `over` those that were, as well."""
        return [each for each in self._stored.by_number.values() if over or not each.is_over]

    def listed(self, now: Instant) -> list[Reservation]:
        """Return those that are not over, and occurrences that could not be had and lie ahead."""
        return [
            each
            for each in self._stored.by_number.values()
            if not each.is_over or (each.reasons and each.terms.start_wall_s > now.wall_s)
        ]

    def check_may_use(
        self, wanted: ReservationId, user: str, account: Account, now: Instant
    ) -> None:
        """Raise `Refused` if a user who submits under an account may not use a reservation."""
        if wanted.home != self._stored.home:
            raise Refused(
                "reserved-elsewhere",
                f"{wanted} is a reservation of {wanted.home}, and this is {self._stored.home}",
                f"submit it on {wanted.home}, or with --host {wanted.home}",
            )
        self._advance(now)
        reservation = self._stored.by_number.get(wanted.number)
        if reservation is None:
            hint = "list them with iriai reservations"
            raise Refused("no-such-reservation", f"there is no reservation {wanted}", hint)
        if reservation.is_over:
            hint = "submit it into another one, or into none"
            raise Refused("reservation-over", over_text(wanted, reservation.end), hint)
        if reservation.state is ReservationState.REPEATING:
            hint = "submit it into one of its occurrences; 'iriai reservations' lists them"
            raise Refused("reservation-repeats", f"{wanted} is a series: it is never open", hint)
        if not reservation.terms.admits(user, account):
            raise Refused(
                "not-reserved-for",
                f"{wanted} is not for {user}, who submits for {account}",
                f"ask {reservation.terms.user} to reserve it for you as well, or use none",
            )

    def _live(self, number: int) -> Reservation:
        reservation = self.get(number)
        if reservation.is_over:
            raise Refused(
                "reservation-over", over_text(self._stored.named(number), reservation.end)
            )
        return reservation

    def _give_back(self, number: int, end: ReservationEnd, by: str, now: Instant) -> Reservation:
        self._advance(now)
        reservation = self._live(number)
        if reservation.state is ReservationState.REPEATING:
            self._series.cancel(reservation, by, now)
        else:
            self._negotiation.give_back(reservation.number, end, by, now)
        return self._stored.by_number[number]

    # --- events ----------------------------------------------------------------------------------

    def take(self, message: ReservationToHome, now: Instant) -> None:
        """Handle a message; one that was repeated, is late or is not expected changes nothing."""
        if self._modification.is_about(message.reservation, message.version):
            self._modification.take(message, now)
        else:
            self._negotiation.take(message, now)

    def link_up(self, machine: str, now: Instant) -> None:
        """Tell a machine that can be reached again what it may not have received."""
        self._replacement.link_up(machine)
        self._negotiation.link_up(machine, now)
        self._modification.link_up(machine, now)

    def link_down(self, machine: str, now: Instant) -> None:
        """Note that a machine cannot be reached any more."""
        self._replacement.link_down(machine, now)

    def rejoin(self, now: Instant) -> None:
        """After a restart: give up what was not decided, go on with what was."""
        self._looks_from_s = now.steady_s + NO_SHOW_LOOK_S
        self._negotiation.rejoin(now)
        self._modification.rejoin(now)
        self._replacement.rejoin(now)

    def told(self, number: int, serial: int) -> None:
        """Note that news of a reservation were told, or cannot be."""
        self._stored.told(number, serial)

    def note_used(self, number: int) -> None:
        """Note that a task of a job inside has used it."""
        reservation = self._stored.by_number.get(number)
        if reservation is not None and not (reservation.is_used or reservation.is_over):
            # Not urgent: what is lost with it is told again, as the end of the task is.
            self._stored.store(replace(reservation, is_used=True), is_urgent=False)

    def settle(self, now: Instant, jobs: JobsInside) -> list[int]:
        """At the end of each turn: do what is due; return those that are over since the last."""
        self._advance(now)
        if self._unused:
            self._end_unused(jobs, now)
        self._negotiation.forget(self._stored.forget(now))
        self._negotiation.settle(now)
        self._modification.settle(now)
        self._replacement.settle(now)
        if self._repeated is not None:
            self._repeated.settle(now)
        ended = self._negotiation.ended
        if ended:
            self._negotiation.ended = []
        return ended

    def next_s(self, now: Instant) -> float:
        """Return when `settle` has something to do, by the steady clock; inf: never.

        Those that are over are forgotten in some turn, which need not be had for that.
        """
        next_wall_s = self._stored.next_wall_s
        if self._repeated is not None:
            next_wall_s = min(next_wall_s, self._repeated.next_wall_s)
        next_s = min(self._negotiation.next_s, self._modification.next_s, self._replacement.next_s)
        if next_wall_s == inf:
            return next_s
        in_s = min(max(0.0, next_wall_s - now.wall_s), WALL_CHECK_S)
        return min(next_s, now.steady_s + in_s)

    def check(self) -> None:
        """Raise if an invariant of this part is broken."""
        self._stored.check()
        self._negotiation.check()
        if self._repeated is not None:
            self._repeated.check()
        self._modification.check()
        self._replacement.check()

    def _advance(self, now: Instant) -> None:
        """Open and end what is due by the wall clock."""
        while (reservation := self._stored.next_due(now)) is not None:
            if reservation.state is ReservationState.CONFIRMED:
                self._stored.store(replace(reservation, state=ReservationState.OPEN))
                late_wall_s = self._stored.limits.no_show_wall_s(reservation.terms)
                if late_wall_s is not None and late_wall_s <= now.wall_s:
                    self._looks_from_s = now.steady_s + NO_SHOW_LOOK_S  # it slept meanwhile
            elif reservation.terms.end_wall_s > now.wall_s:
                self._unused[reservation.number] = None
            else:
                self._negotiation.time_over(reservation, now)

    def _end_unused(self, jobs: JobsInside, now: Instant) -> None:
        """Give back those that no task has used, unless one may."""
        for number in self._unused:
            reservation = self._stored.by_number[number]
            late_wall_s = self._stored.limits.no_show_wall_s(reservation.terms)
            is_unused = reservation.state is ReservationState.OPEN and not reservation.is_used
            is_due = is_unused and self._stored.is_due(reservation, now)
            if late_wall_s is None or not is_due:
                continue
            if now.steady_s < self._looks_from_s or jobs.may_use(number, late_wall_s, now):
                self._stored.look_again(reservation, now.wall_s + NO_SHOW_LOOK_S)
            else:
                self._negotiation.give_back(number, ReservationEnd.NO_SHOW, "", now)
        self._unused.clear()

"""The reservations of a home: what clients ask of them, and how they open and end."""

from __future__ import annotations

from math import inf
from random import Random

from msgspec.structs import replace

from iriai.home.reservations.negotiation import Negotiation
from iriai.home.reservations.stored_reservations import StoredReservations
from iriai.model.ids import Account, ReservationId
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Refused
from iriai.model.reservation import (
    COUNT_MAX,
    Reservation,
    ReservationEnd,
    ReservationState,
    ReservationTerms,
    over_text,
    terms_problem,
)
from iriai.protocol.messages.effects import Effect
from iriai.protocol.messages.reservations import ReservationToHome

WALL_CHECK_S = 600.0
"""A time of the wall clock is looked at again so often: the clock may be set meanwhile."""


class HomeReservations:
    """The reservations that were asked for on this machine."""

    def __init__(
        self,
        home: str,
        reservations: dict[int, Reservation],
        next_number: int,
        effects: list[Effect],
        rng: Random | None = None,
    ) -> None:
        """`reservations` has them by number, ascending, and is changed here.

        `rng` draws the pauses before further tries; without one they are as long as they may be.
        """
        self._stored = StoredReservations(home, reservations, next_number, effects)
        self._negotiation = Negotiation(self._stored, effects, rng)

    @property
    def next_number(self) -> int:
        """Return the number of the next reservation."""
        return self._stored.next_number

    # --- requests of clients ---------------------------------------------------------------------

    def ask(self, terms: ReservationTerms, now: Instant) -> ReservationId:
        """Seek nodes for a reservation; `ReservationAnswered` follows.

        Raises `UsageProblem` or `Refused` if it can never be, or the account has too many.
        """
        self._advance(now)
        problem = terms_problem(terms, now.wall_s)
        if problem is not None:
            raise problem
        if sum(r.terms.account == terms.account for r in self.all()) >= COUNT_MAX:
            raise Refused(
                "too-many-reservations",
                f"{terms.account} has {COUNT_MAX} reservations that are not over",
                "cancel one of them; list them with iriai reservations",
            )
        number = self._stored.new_number()
        self._stored.store(Reservation(number, 1, terms, asked_wall_s=now.wall_s))
        self._negotiation.begin(number, now)
        return self._stored.named(number)

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
        self._negotiation.give_back(reservation.number, end, by, now)
        return self._stored.by_number[number]

    # --- events ----------------------------------------------------------------------------------

    def take(self, message: ReservationToHome, now: Instant) -> None:
        """Handle a message; one that was repeated, is late or is not expected changes nothing."""
        self._negotiation.take(message, now)

    def link_up(self, machine: str, now: Instant) -> None:
        """Tell a machine that can be reached again what it may not have received."""
        self._negotiation.link_up(machine, now)

    def rejoin(self, now: Instant) -> None:
        """After a restart: give up what was not decided, go on with what was."""
        self._negotiation.rejoin(now)

    def settle(self, now: Instant) -> list[int]:
        """At the end of each turn: do what is due; return those that are over since the last."""
        self._advance(now)
        self._negotiation.forget(self._stored.forget(now))
        self._negotiation.settle(now)
        ended = self._negotiation.ended
        if ended:
            self._negotiation.ended = []
        return ended

    def next_s(self, now: Instant) -> float:
        """Return when `settle` has something to do, by the steady clock; inf: never.

        Those that are over are forgotten in some turn, which need not be had for that.
        """
        next_wall_s = self._stored.next_wall_s
        if next_wall_s == inf:
            return self._negotiation.next_s
        in_s = min(max(0.0, next_wall_s - now.wall_s), WALL_CHECK_S)
        return min(self._negotiation.next_s, now.steady_s + in_s)

    def check(self) -> None:
        """Raise if an invariant of this part is broken."""
        self._stored.check()
        self._negotiation.check()

    def _advance(self, now: Instant) -> None:
        """Open and end what is due by the wall clock."""
        while (reservation := self._stored.next_due(now)) is not None:
            if reservation.state is ReservationState.CONFIRMED:
                self._stored.store(replace(reservation, state=ReservationState.OPEN))
            else:
                self._negotiation.time_over(reservation, now)

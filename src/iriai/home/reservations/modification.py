"""How a reservation that stands gets another version (docs/spec/017, section 4).

It is the protocol by which it came to be: nodes hold and confirm the next version beside the one
that stands, which they free only once all have confirmed the next one, and its home has stored
that it counts. What does not come about leaves the reservation as it is.
"""

from __future__ import annotations

from math import inf
from random import Random

from msgspec.structs import replace

from iriai.home.reservations.exchange import Exchange
from iriai.home.reservations.negotiation import Negotiation, cancelled, is_undecided
from iriai.home.reservations.stored_reservations import NextVersions, StoredReservations
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Refused
from iriai.model.reservation import (
    Reservation,
    ReservationEnd,
    ReservationState,
    ReservationTerms,
    over_text,
    terms_problem,
)
from iriai.protocol.messages.effects import Effect, ReservationAnswered

STANDS = (ReservationState.CONFIRMED, ReservationState.OPEN)


class Modification(Negotiation):
    """What is under way for the next versions of the reservations of a home."""

    is_of_changes = True

    def __init__(
        self,
        kept: StoredReservations,
        standing: Negotiation,
        effects: list[Effect],
        rng: Random | None,
    ) -> None:
        """`standing`: what is under way for the versions that count."""
        self._next = NextVersions(kept)
        super().__init__(self._next, effects, rng)
        self._kept_versions, self._standing = kept, standing
        standing.changes = self

    def is_about(self, reservation: ReservationId, version: int) -> bool:
        """Return whether a message of a version is about a next one."""
        stands = self._kept_versions.by_number.get(reservation.number)
        is_here = reservation.home == self._kept_versions.home
        return is_here and stands is not None and _stands(stands) and version > stands.version

    def is_busy(self, number: int) -> bool:
        """Return whether a next version is under way that does not give way to another one."""
        following, exchange = self._next.by_number.get(number), self._exchanges.get(number)
        if following is None or not is_undecided(following):
            return False
        is_decided = following.state is ReservationState.DECIDING
        return is_decided or exchange is None or not exchange.replaced

    def is_under_way(self, number: int) -> bool:
        """Return whether nodes are sought for a next version, or have it."""
        following = self._next.by_number.get(number)
        return following is not None and is_undecided(following)

    def seek(self, number: int, terms: ReservationTerms, now: Instant) -> None:
        """Seek nodes for a next version, which somebody asked for; the one that stands stays."""
        self._begin(number, Exchange(terms, is_awaited=True), now)

    def replace_missing(self, number: int, now: Instant) -> None:
        """Seek other nodes in place of those that a reservation lacks, for the same terms."""
        stands = self._kept_versions.by_number[number]
        terms = replace(stands.terms, is_earliest=False)
        self._begin(number, Exchange(terms, replaced=stands.missing), now)

    def end_replacement(self, number: int, now: Instant) -> None:
        """Seek no other nodes any more: all are there again, unless it is decided already."""
        following, exchange = self._next.by_number.get(number), self._exchanges.get(number)
        is_sought = following is not None and following.state is ReservationState.SEEKING
        if following is not None and is_sought and exchange is not None and exchange.replaced:
            self._over(following, ReservationEnd.REFUSED, following.nodes, now)

    def _begin(self, number: int, exchange: Exchange, now: Instant) -> None:
        terms, stands = exchange.asked, self._kept_versions.by_number[number]
        left, version = self.left_of(number), stands.last_version + 1
        following = Reservation(number, version, terms, asked_wall_s=now.wall_s, unanswered=left)
        self._exchanges[number] = exchange
        self._store(following)
        if left:
            self._free_all(following, now, is_first=True)
        self._seek(number, now)

    def withdrawn(
        self, reservation: Reservation, *, is_freed: bool
    ) -> tuple[Reservation, tuple[str, ...]]:
        """Return one that is about to be over, without its next version, and who may have that.

        `is_freed`: its nodes are told to free all that they have of it.
        """
        number, following = reservation.number, reservation.next
        machines: tuple[str, ...] = ()
        if following is not None:
            self._answer_refused(number, cancelled(reservation.by or "its end"), None)
            machines = (*self.left_of(number), *following.nodes)
            self._exchanges.pop(number, None)
            self._next.by_number.pop(number, None)
        version = reservation.last_version if machines or is_freed else reservation.version
        return replace(reservation, version=version, next=None, tried=0), machines

    # --- where it is not as of a new one ---------------------------------------------------------

    def _confirm(self, reservation: Reservation, exchange: Exchange, now: Instant) -> None:
        """All nodes have it: it counts from now on, and the one before is freed."""
        number = reservation.number
        stands = self._kept_versions.by_number[number]
        left = (*self._standing.left_of(number), *stands.nodes, *exchange.left(reservation))
        has_begun = reservation.terms.start_wall_s <= now.wall_s
        counts = replace(
            stands,
            version=reservation.version,
            terms=reservation.terms,
            nodes=reservation.nodes,
            state=ReservationState.OPEN if has_begun else ReservationState.CONFIRMED,
            missing=(),
            unanswered=tuple(sorted(dict.fromkeys(left))),
            next=None,
            tried=0,
        )
        del self._next.by_number[number], self._exchanges[number]
        self._kept_versions.store(counts)
        self._standing.frees(counts, now)
        if exchange.is_awaited:
            self._effects.append(ReservationAnswered(number, is_confirmed=True, is_change=True))

    def _over(
        self, reservation: Reservation, end: ReservationEnd, asked: tuple[str, ...], now: Instant
    ) -> None:
        """Give a next version up; the machines that were asked for it free it."""
        number, exchange = reservation.number, self._exchange_of(reservation)
        unanswered = tuple(sorted(dict.fromkeys((*exchange.left(reservation), *asked))))
        exchange.end_try()
        over = replace(
            reservation,
            state=ReservationState.OVER,
            end=end,
            over_wall_s=now.wall_s,
            nodes=(),
            unanswered=unanswered,
        )
        self._store(over)
        if unanswered:
            self._free_all(over, now, is_first=True)
        self._drop_if_settled(number)
        if self._kept_versions.is_due(self._kept_versions.by_number[number], now):
            self._kept_versions.note_time(number)  # its end has come meanwhile

    def _problem(
        self, reservation: Reservation, terms: ReservationTerms, now: Instant
    ) -> Problem | None:
        number = reservation.number
        return next_problem(
            self._stored.named(number),
            self._kept_versions.by_number[number],
            terms,
            now,
            self._stored.limits.horizon_s,
        )

    def _kept(self, number: int) -> tuple[str, ...]:
        stands = self._kept_versions.by_number[number]
        return tuple(each for each in stands.nodes if each not in stands.missing)

    def _first_version(self, number: int) -> int:
        stands = self._kept_versions.by_number.get(number)
        return 0 if stands is None else stands.version + 1

    def _without(self, reservation: Reservation, exchange: Exchange) -> tuple[str, ...]:
        stands = self._kept_versions.by_number[reservation.number]
        left = self._standing.left_of(stands.number)
        before = (each for each in left if each not in stands.nodes)
        own = super()._without(reservation, exchange)
        return tuple(sorted(dict.fromkeys((*own, *before, *exchange.replaced))))


def next_problem(
    named: ReservationId,
    stands: Reservation,
    terms: ReservationTerms,
    now: Instant,
    horizon_s: float,
) -> Problem | None:
    """Return why a reservation cannot have these terms from now on; None: it may be able to."""
    problem = standing_problem(named, stands)
    if problem is not None:
        return problem
    has_begun = stands.state is ReservationState.OPEN
    if has_begun and terms.start_wall_s != stands.terms.start_wall_s:
        hint = "change its end, or reserve another time"
        return Refused("has-begun", f"{named} is open: its start stays", hint)
    if terms.start_wall_s == stands.terms.start_wall_s:
        horizon_s = inf  # it was within, or is an occurrence of a series
    return terms_problem(terms, now.wall_s, horizon_s, has_begun=has_begun)


def standing_problem(named: ReservationId, stands: Reservation) -> Problem | None:
    """Return why a reservation cannot be modified, whatever its terms would be."""
    if _stands(stands):
        return None
    if stands.is_over:
        return Refused("reservation-over", over_text(named, stands.end))
    if stands.state is ReservationState.REPEATING:
        hint = "modify an occurrence of it, or cancel it and reserve anew"
        return Refused("reservation-repeats", f"{named} is a series", hint)
    what = f"{named} is not confirmed: it is {stands.state}"
    return Refused("not-confirmed", what, "wait until it is")


def _stands(reservation: Reservation) -> bool:
    return reservation.state in STANDS

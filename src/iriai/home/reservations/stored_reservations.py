"""The reservations of a home as they are stored, and when the next of them changes by itself."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Protocol

from msgspec.structs import replace

from iriai.home.reservations.news import news_between, with_news, without_news
from iriai.model.ids import ReservationId, series_of
from iriai.model.instant import Instant
from iriai.model.records import ReservationsDropped, ReservationStored
from iriai.model.reservation import (
    DEFAULT_LIMITS,
    NextVersion,
    Reservation,
    ReservationEnd,
    ReservationLimits,
    ReservationState,
)
from iriai.model.reservation_news import Notification
from iriai.protocol.messages.effects import Effect, Persist, ReservationNewsDue

KEPT_S = 30 * 86_400.0
"""How long one that is over is kept."""
OVER_MAX = 10_000
"""Of those that are over. A user may ask without end for what is refused: beyond this number those
that would be forgotten next are, unless machines have yet to free them."""


class StoredVersions(Protocol):
    """Reservations, or versions of them, for which nodes are sought, by number."""

    home: str
    limits: ReservationLimits
    by_number: dict[int, Reservation]

    def named(self, number: int) -> ReservationId:
        """Return the name of a reservation."""

    def store(self, reservation: Reservation, *, is_urgent: bool = True) -> None:
        """Keep one as it is now."""


class StoredReservations:
    """By number, ascending; each change is a record."""

    def __init__(
        self,
        home: str,
        by_number: dict[int, Reservation],
        next_number: int,
        effects: list[Effect],
        limits: ReservationLimits = DEFAULT_LIMITS,
    ) -> None:
        """`by_number` is changed here."""
        self.limits = limits
        self.home = home
        self.by_number = by_number
        self.next_number = next_number
        """Of the next reservation."""
        self._effects = effects
        self._times: list[tuple[float, int]] = []
        """A heap: when, by the wall clock, one that is not over changes; some are void."""
        self._kept: list[tuple[float, int]] = []
        """A heap: until when those that are over are kept."""
        self.degraded: dict[int, None] = {}
        """Those that stand and lack nodes."""
        for reservation in by_number.values():
            self._note_time(reservation)
            self._note_degraded(reservation)

    def named(self, number: int) -> ReservationId:
        """Return the name of a reservation."""
        return ReservationId(self.home, number)

    def new_number(self) -> int:
        """Return the next number, which nobody gets again."""
        self.next_number += 1
        return self.next_number - 1

    def store(self, reservation: Reservation, *, is_urgent: bool = True) -> None:
        """Keep a reservation as it is now."""
        before = self.by_number.get(reservation.number)
        if reservation.notification is not None:
            reservation = self._with_news(before, reservation, reservation.notification)
        self.by_number[reservation.number] = reservation
        self._note_degraded(reservation)
        if before is None or self._changes_wall_s(before) != self._changes_wall_s(reservation):
            self._note_time(reservation)
        self._effects.append(Persist(ReservationStored(reservation), urgent=is_urgent))

    def _with_news(
        self, before: Reservation | None, after: Reservation, notification: Notification
    ) -> Reservation:
        """Return a reservation with the news that its change is, for its user."""
        if before is not None and before.notification is not None:
            notification = before.notification  # whoever changed it may have an older one
        whole = with_news(notification, news_between(before, after))
        if whole.serial != notification.serial:
            self._effects.append(ReservationNewsDue(after.number))
        return replace(after, notification=whole)

    def told(self, number: int, serial: int) -> None:
        """Note that news of a reservation were told, or cannot be."""
        reservation = self.by_number.get(number)
        if reservation is None or reservation.notification is None:
            return
        notification = without_news(reservation.notification, serial)
        reservation = replace(reservation, notification=notification)
        self.by_number[number] = reservation
        self._effects.append(Persist(ReservationStored(reservation)))

    @property
    def next_wall_s(self) -> float:
        """When one that is not over may next change by itself, by the wall clock; inf: never."""
        return self._times[0][0] if self._times else inf

    def next_due(self, now: Instant) -> Reservation | None:
        """Return one whose time has come, each time once; None: there is no other."""
        while self._times and self._times[0][0] <= now.wall_s:
            _, number = heappop(self._times)
            reservation = self.by_number.get(number)
            if reservation is None or reservation.is_over:
                continue
            if self.is_due(reservation, now):
                return reservation
        return None

    def is_due(self, reservation: Reservation, now: Instant) -> bool:
        """Return whether the time has come at which one changes by itself."""
        return self._changes_wall_s(reservation) <= now.wall_s

    def forget(self, now: Instant) -> list[int]:
        """Forget those that have been over for long, or are too many; return their numbers."""
        dropped: list[int] = []
        while self._kept and self._kept[0][0] <= now.wall_s:
            _, number = heappop(self._kept)
            if self.by_number.pop(number, None) is not None:
                dropped.append(number)
        dropped += self._surplus()
        if dropped:
            self._effects.append(Persist(ReservationsDropped(tuple(dropped)), urgent=False))
        return dropped

    def _surplus(self) -> list[int]:
        """Forget those of too many that are over which would be forgotten next."""
        dropped: list[int] = []
        for _ in range(len(self._kept) - OVER_MAX):
            wall_s, number = heappop(self._kept)
            if self.by_number[number].unanswered:  # a machine may still have it
                heappush(self._kept, (wall_s + KEPT_S, number))
            else:
                del self.by_number[number]
                dropped.append(number)
        return dropped

    def check(self) -> None:
        """Raise if an invariant of what is stored is broken."""
        for number, reservation in self.by_number.items():
            assert number == reservation.number
            assert series_of(number) < self.next_number
            assert list(reservation.nodes) == sorted(frozenset(reservation.nodes))
            assert (reservation.end is None) is not reservation.is_over
            assert frozenset(reservation.nodes).issuperset(reservation.missing)
            assert reservation.next is None or reservation.next.version > reservation.version

    def _note_degraded(self, reservation: Reservation) -> None:
        if reservation.is_degraded:
            self.degraded[reservation.number] = None
        else:
            self.degraded.pop(reservation.number, None)

    def _note_time(self, reservation: Reservation) -> None:
        times = self._kept if reservation.is_over else self._times
        heappush(times, (self._changes_wall_s(reservation), reservation.number))

    def note_time(self, number: int) -> None:
        """Let `next_due` return one whose time has come once more."""
        self._note_time(self.by_number[number])

    def look_again(self, reservation: Reservation, wall_s: float) -> None:
        """Let `next_due` return one again then, though its time has come."""
        heappush(self._times, (min(wall_s, reservation.terms.end_wall_s), reservation.number))

    def _changes_wall_s(self, reservation: Reservation) -> float:
        """Return when it changes by itself, by the wall clock."""
        terms = reservation.terms
        if reservation.is_over:  # and no machine can have anything of it any more
            return max(reservation.over_wall_s, terms.end_wall_s) + KEPT_S
        if reservation.state is ReservationState.REPEATING:  # in time for its occurrences
            return inf
        if reservation.state is ReservationState.CONFIRMED:
            return terms.start_wall_s
        if reservation.state is ReservationState.OPEN and not reservation.is_used:
            late_wall_s = self.limits.no_show_wall_s(terms)
            return terms.end_wall_s if late_wall_s is None else late_wall_s
        return terms.end_wall_s


class NextVersions:
    """The versions that are sought beside reservations, each stored with its own.

    One that is over is kept until all machines have freed it.
    """

    def __init__(self, kept: StoredReservations) -> None:
        self.kept = kept
        self.home, self.limits = kept.home, kept.limits
        self.by_number: dict[int, Reservation] = {
            number: _as_reservation(number, each.next)
            for number, each in kept.by_number.items()
            if each.next is not None
        }

    def named(self, number: int) -> ReservationId:
        """Return the name of a reservation."""
        return self.kept.named(number)

    def store(self, reservation: Reservation, *, is_urgent: bool = True) -> None:
        """Keep a version as it is now; drop one that is over if nobody has anything of it."""
        number, stands = reservation.number, self.kept.by_number[reservation.number]
        if reservation.is_over and not reservation.unanswered:
            self.by_number.pop(number, None)
            stands = replace(stands, next=None, tried=reservation.version)
        else:
            self.by_number[number] = reservation
            stands = replace(stands, next=_as_next(reservation))
        self.kept.store(stands, is_urgent=is_urgent)


def _as_reservation(number: int, following: NextVersion) -> Reservation:
    is_over = following.state is ReservationState.OVER
    return Reservation(
        number,
        following.version,
        following.terms,
        following.state,
        following.nodes,
        end=ReservationEnd.REFUSED if is_over else None,
        unanswered=following.unanswered,
    )


def _as_next(reservation: Reservation) -> NextVersion:
    return NextVersion(
        reservation.version,
        reservation.terms,
        reservation.state,
        reservation.nodes,
        reservation.unanswered,
    )

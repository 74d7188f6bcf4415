"""Why a node does not keep a booking that a home asks it to hold (docs/spec/017, section 3)."""

from __future__ import annotations

from collections.abc import Mapping

from iriai.model.claim import HOLD_MAX_S, Phase
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import AHEAD_MAX_S, BOOKINGS_MAX, LENGTH_MAX_S, LENGTH_MIN_S, Booking
from iriai.model.resources import NOTHING, Resources, describe_amount
from iriai.model.units import format_duration
from iriai.node.claims import Claims
from iriai.node.offer_builder import Availability
from iriai.node.reservations.kept_booking import SPANS_MAX, KeptBooking
from iriai.node.settings import NodeSettings
from iriai.protocol.messages.reservations import Book

OF_HOME_MAX = 256
"""Bookings of one home: it leaves most places to others, whether it confirms its own or not."""
STARTED_MAX_S = HOLD_MAX_S
"""How long ago a new booking may have started: a home that is told `now` has to find its nodes."""
NAMES_MAX = 16_384
"""Characters of all who may use one booking: it is stored whole, and there are many."""

Kept = Mapping[ReservationId, KeptBooking]


class BookingChecks:
    """Judges bookings that are to be held."""

    def __init__(self, settings: NodeSettings, availability: Availability, claims: Claims) -> None:
        self._settings, self._availability = settings, availability
        self._machine = settings.machine
        self._calendar = claims.calendar

    def refusal(self, book: Book, held: KeptBooking, kept: Kept, now: Instant) -> Reason | None:
        """Return why a booking cannot be held; None: it can.

        `held` is it as it would be kept, `kept` are all that there are: of its reservation an
        earlier version, which it is to be beside.
        """
        asked = book.booking
        home, user = asked.reservation.home, asked.user
        if asked.phase is not Phase.HELD:
            needed = "to be confirmed while it is held"
            return Reason(Rule.HOLD_EXPIRED, needed, "it is not held", self._machine)
        words = "" if home == self._machine else self._settings.judge_user(home, user, now.wall_s)
        if words:
            whom = "a home and a user whose tasks the machine runs"
            return Reason(Rule.USER_NOT_ALLOWED, whom, words, self._machine)
        if self._availability.drained is not None:
            return self._availability.reason()
        before = kept.get(asked.reservation)
        return (
            self._bad_times(book, now)
            or self._bad_amounts(held.resources)
            or self._not_reservable(asked, held, kept)
            or self._too_much(asked, kept)
            or self._in_its_way(held, kept, now)
            or (None if before is None else self._in_its_tasks_way(held, before, now))
        )

    def _bad_times(self, book: Book, now: Instant) -> Reason | None:
        asked = book.booking
        length_s = asked.end_wall_s - asked.start_wall_s
        if not LENGTH_MIN_S <= length_s <= LENGTH_MAX_S:
            least, most = format_duration(LENGTH_MIN_S), format_duration(LENGTH_MAX_S)
            needed, had = f"a length from {least} to {most}", f"it has {length_s:.0f} s"
        elif asked.end_wall_s <= now.wall_s:
            needed, had = "an end that lies ahead", "it is over"
        elif asked.start_wall_s < now.wall_s - STARTED_MAX_S and not book.is_later:
            needed = f"a start at most {format_duration(STARTED_MAX_S)} ago"
            had = f"it is {format_duration(now.wall_s - asked.start_wall_s)} ago"
        elif asked.start_wall_s > now.wall_s + AHEAD_MAX_S:
            needed = f"a start at most {format_duration(AHEAD_MAX_S)} ahead"
            had = f"it is in {format_duration(asked.start_wall_s - now.wall_s)}"
        else:
            return None
        return Reason(Rule.NOT_RESERVED, needed, had, self._machine)

    def _bad_amounts(self, resources: Resources) -> Reason | None:
        if resources.fits_in(NOTHING):
            return Reason(Rule.NOT_RESERVED, "something to keep", "it is nothing", self._machine)
        lacking = resources.lacking_in(self._calendar.capacity)
        if not lacking:
            return None
        name, amount, had = lacking[0]
        needed, has = describe_amount(name, amount), f"it has {describe_amount(name, had)}"
        return Reason(Rule.NO_MACHINE_LARGE_ENOUGH, needed, has, self._machine)

    def _not_reservable(self, asked: Booking, held: KeptBooking, kept: Kept) -> Reason | None:
        """Return why the machine's owner does not let it be reserved; None: it may be."""
        reservable = self._settings.reservable
        if not reservable.is_limited:
            return None
        from iriai.node.reservations.reservable_part import more_than_reservable

        need, capacity = held.resources, self._calendar.capacity
        whose = (asked.user, asked.account)
        refused = reservable.refusal(*whose, need, capacity, self._machine)
        own = asked.reservation
        others = [s for each in kept.values() if each.reservation != own for s in each.spans]
        most = reservable.of(capacity)
        return refused or more_than_reservable(most, held.span, others, self._machine)

    def _too_much(self, asked: Booking, kept: Kept) -> Reason | None:
        """Return why a machine keeps no more; None: it does."""
        home = asked.reservation.home
        characters = sum(map(len, (asked.user, asked.group, *asked.users)))
        if characters > NAMES_MAX:
            needed, had = f"at most {NAMES_MAX} characters of names", f"it has {characters}"
            return Reason(Rule.NOT_RESERVED, needed, had, self._machine)
        beside = sum(each.later is not None for each in kept.values())
        is_later = asked.reservation in kept
        spans = len(kept) + (SPANS_MAX - 1) * (beside + is_later)
        if spans + (not is_later) > BOOKINGS_MAX:
            had = f"it keeps {BOOKINGS_MAX}"
            return Reason(Rule.MACHINE_BUSY, "fewer bookings", had, self._machine)
        of_home = sum(each.reservation.home == home for each in kept.values())
        if of_home >= OF_HOME_MAX and not is_later:
            had = f"{home} has {of_home}"
            return Reason(Rule.MACHINE_BUSY, "fewer bookings of that home", had, self._machine)
        return None

    def _in_its_way(self, held: KeptBooking, kept: Kept, now: Instant) -> Reason | None:
        start_s, end_s = max(held.start_s, now.steady_s), held.end_s
        own = held.reservation if held.reservation in kept else None
        if self._settings.reserves_above:  # what runs gives way in time for the start
            if self._calendar.beside_bookings(own).is_room(held.resources, start_s, end_s):
                return None
        elif self._calendar.is_bookable(held.resources, start_s, end_s, own):
            return None
        needed = f"what it takes, for {format_duration(end_s - start_s)}"
        for other in kept.values():
            if other.reservation != own and other.start_s < end_s and start_s < other.end_s:
                had = f"{other.reservation} has some of it then"
                return Reason(Rule.RESERVED_AHEAD, needed, had, self._machine)
        had = "tasks that run now may have some of it then"
        return Reason(Rule.MACHINE_BUSY, needed, had, self._machine)

    def _in_its_tasks_way(
        self, held: KeptBooking, before: KeptBooking, now: Instant
    ) -> Reason | None:
        """Return why a later version cannot take the place of a booking that is open."""
        if not (before.is_open and held.covers(now.steady_s)):
            return None
        lacking = self._calendar.used_in(held.reservation).lacking_in(held.resources)
        if lacking:
            name, amount, _ = lacking[0]
            needed = f"at least {describe_amount(name, amount)}"
            return Reason(Rule.MACHINE_BUSY, needed, "tasks that run in it use that", self._machine)
        from iriai.policy.placement.bookings import positive

        more = positive(held.resources.minus(before.resources))
        lacking = more.lacking_in(self._calendar.free)
        if not lacking:
            return None
        name, amount, had = lacking[0]
        there = f"{describe_amount(name, max(0, had))} free"
        return Reason(Rule.MACHINE_BUSY, describe_amount(name, amount), there, self._machine)

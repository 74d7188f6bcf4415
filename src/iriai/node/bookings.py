"""What a node keeps for reservations: claims with a start and an end (docs/spec/017, section 3).

A booking is wall time, a claim steady time: here they meet. Moments are on the steady clock unless
a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import Any

from msgspec.structs import replace

from iriai.model.claim import HOLD_MAX_S, Claim, Phase
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.records import BookingsDropped, BookingStored, ClaimStored
from iriai.model.reservation import BOOKINGS_MAX, LENGTH_MAX_S, LENGTH_MIN_S, Booking
from iriai.model.resources import NOTHING, Resources, describe_amount
from iriai.model.units import format_duration
from iriai.node.booked_claims import BookedClaims, KeptBooking
from iriai.node.claims import StayBound
from iriai.node.metering import SLICE_S, HeldClaim, Meter, Stretch
from iriai.node.offer_builder import Availability
from iriai.node.settings import NodeSettings
from iriai.protocol.messages.effects import Part, Persist, Send
from iriai.protocol.messages.reservations import Book, Booked, BookedTime, NotBooked, Unbook
from iriai.protocol.messages.scheduling import Run

OF_HOME_MAX = 256
"""Bookings of one home: it leaves most places to others, whether it confirms its own or not."""
STARTED_MAX_S = HOLD_MAX_S
"""How long ago a new booking may have started: a home that is told `now` has to find its nodes."""
MOVED_S = 0.05
"""By how much wall and steady clock have moved against each other before bookings are mapped
anew."""
CLOCK_LOOK_S = 60.0
"""How often that is looked at while nothing else happens."""
NAMES_MAX = 16_384
"""Characters of all who may use one booking: it is stored whole, and there are many."""
GIVEN_BACK = "it was given back"


class NodeBookings:
    """The bookings of a node."""

    def __init__(
        self,
        settings: NodeSettings,
        availability: Availability,
        claims: BookedClaims,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._settings, self._availability, self._booked = settings, availability, claims
        self._machine = settings.machine
        self._claims, self._report, self._effects = claims.claims, claims.report, claims.effects
        self._calendar = self._claims.calendar
        self.kept: dict[ReservationId, KeptBooking] = {}
        """By reservation, in the order in which they came; only methods of this class change it."""
        self._offset_s = 0.0
        """By how much the wall clock was ahead of the steady one when bookings were mapped."""
        self._next_s: float | None = None
        self._is_news = False
        """Whether the broker has to hear of all of them again."""
        self._told: list[tuple[ReservationId, Resources | None]] = []
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {
            Book: self._book,
            Unbook: self._unbook,
        }

    def stored(self) -> list[Booking]:
        """Return all that a restarted node must find."""
        return [kept.booking for kept in self.kept.values()]

    # --- after a restart -------------------------------------------------------------------------

    def restore(self, bookings: Iterable[Booking], claims: Iterable[Claim], now: Instant) -> None:
        """Keep what was stored, before its claims are restored; open is what has some inside.

        What the machine has no longer is dropped, and its home told.
        """
        self._offset_s = now.wall_s - now.steady_s
        inside = {claim.reservation: None for claim in claims if claim.reservation is not None}
        whole = sorted(bookings, key=lambda each: (each.start_wall_s, each.reservation))
        ends: list[tuple[float, int, Resources]] = []
        room = least = self._settings.capacity
        for number, booking in enumerate(whole):
            while ends and ends[0][0] <= booking.start_wall_s:
                room = room.plus(heappop(ends)[2])
            resources = booking.resources or NOTHING
            if not resources.fits_in(room):
                self._tell_dropped(booking, "the machine has less than it had", now)
                continue
            room = room.minus(resources)
            least = least.with_limits(
                min(least.memory_bytes, room.memory_bytes), min(least.disk_bytes, room.disk_bytes)
            )
            heappush(ends, (booking.end_wall_s, number, resources))
            left_s = min(HOLD_MAX_S, booking.held_until_wall_s - now.wall_s)
            is_held = booking.phase is Phase.HELD
            kept = KeptBooking(booking, now.steady_s + left_s if is_held else None)
            kept.map(self._offset_s)
            kept.is_open = booking.reservation in inside and not is_held
            self.kept[booking.reservation] = kept
        if self.kept:
            self._claims.promise(self._settings.capacity.minus(least))
            self._changed()

    def _tell_dropped(self, booking: Booking, had: str, now: Instant) -> None:
        self._effects.append(Persist(BookingsDropped((booking.reservation,))))
        self._refuse(booking, Reason(Rule.NOT_RESERVED, "a booking", had, self._machine))

    def with_booking(self, claims: Iterable[Claim]) -> Iterator[Claim]:
        """Yield claims as they are now: those whose bookings are not kept are inside none."""
        for claim in claims:
            kept = None if claim.reservation is None else self.kept.get(claim.reservation)
            is_inside = kept is not None and kept.is_open
            if claim.reservation is not None and not is_inside:
                claim = replace(claim, reservation=None)  # noqa: PLW2901 - as it is from now on
                self._effects.append(Persist(ClaimStored(claim)))
            yield claim

    def ends_by_s(self, claim: Claim) -> float | None:
        """Return when a claim has to be gone, with its booking or for one; None: it need not."""
        if claim.reservation is not None:
            return self.kept[claim.reservation].end_s
        return None if claim.gone_by_wall_s is None else claim.gone_by_wall_s - self._offset_s

    # --- what homes ask for ----------------------------------------------------------------------

    def _book(self, book: Book, now: Instant) -> None:
        self._look_at_clock(now)
        self._expire(now)
        asked = book.booking
        kept = self.kept.get(asked.reservation)
        if kept is None:
            self._hold(book, now)
        elif kept.booking.version != asked.version:
            had = f"version {kept.booking.version} of it is kept"
            self._refuse(asked, Reason(Rule.NOT_RESERVED, "no other version", had, self._machine))
        else:
            if asked.phase is not Phase.HELD and kept.until_s is not None:
                kept.until_s = None
                kept.booking = replace(kept.booking, phase=Phase.CONFIRMED, held_until_wall_s=0.0)
                self._effects.append(Persist(BookingStored(kept.booking)))
            self._answer(kept.booking)

    def _hold(self, book: Book, now: Instant) -> None:
        asked = book.booking
        hold_s = min(book.hold_s, HOLD_MAX_S)
        booking = replace(
            asked,
            resources=self._calendar.capacity
            if asked.resources is None
            else NOTHING.plus(asked.resources),  # each name once, as of another machine
            phase=Phase.HELD,
            held_until_wall_s=now.wall_s + hold_s,
        )
        kept = KeptBooking(booking, now.steady_s + hold_s)
        kept.map(self._offset_s)
        refused = self._refusal(asked, kept, now)
        if refused is not None:
            self._refuse(asked, refused)
            return
        self.kept[booking.reservation] = kept
        self._effects.append(Persist(BookingStored(booking)))
        self._changed()
        self._answer(booking)

    def _answer(self, booking: Booking) -> None:
        reservation, phase = booking.reservation, booking.phase
        told = Booked(reservation, booking.version, self._machine, phase)
        self._effects.append(Send(reservation.home, Part.HOME, told))

    def _refuse(self, booking: Booking, reason: Reason) -> None:
        told = NotBooked(booking.reservation, booking.version, self._machine, reason)
        self._effects.append(Send(booking.reservation.home, Part.HOME, told))

    def _refusal(self, asked: Booking, kept: KeptBooking, now: Instant) -> Reason | None:
        """Return why a booking cannot be held; None: it can."""
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
        return (
            self._bad_times(asked, now)
            or self._bad_amounts(kept.resources)
            or self._not_reservable(asked, kept)
            or self._too_much(asked)
            or self._in_its_way(kept, now)
        )

    def _bad_times(self, asked: Booking, now: Instant) -> Reason | None:
        length_s = asked.end_wall_s - asked.start_wall_s
        if not LENGTH_MIN_S <= length_s <= LENGTH_MAX_S:
            least, most = format_duration(LENGTH_MIN_S), format_duration(LENGTH_MAX_S)
            needed, had = f"a length from {least} to {most}", f"it has {length_s:.0f} s"
        elif asked.end_wall_s <= now.wall_s:
            needed, had = "an end that lies ahead", "it is over"
        elif asked.start_wall_s < now.wall_s - STARTED_MAX_S:
            needed = f"a start at most {format_duration(STARTED_MAX_S)} ago"
            had = f"it is {format_duration(now.wall_s - asked.start_wall_s)} ago"
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

    def _not_reservable(self, asked: Booking, kept: KeptBooking) -> Reason | None:
        """Return why the machine's owner does not let it be reserved; None: it may be."""
        reservable = self._settings.reservable
        if not reservable.is_limited:
            return None
        from iriai.node.reservations.reservable_part import more_than_reservable

        need, capacity = kept.resources, self._calendar.capacity
        whose = (asked.user, asked.account)
        refused = reservable.refusal(*whose, need, capacity, self._machine)
        others = [each.span for each in self.kept.values() if each.reservation != asked.reservation]
        most = reservable.of(capacity)
        return refused or more_than_reservable(most, kept.span, others, self._machine)

    def _too_much(self, asked: Booking) -> Reason | None:
        """Return why a machine keeps no more; None: it does."""
        home = asked.reservation.home
        if len(self.kept) >= BOOKINGS_MAX:
            had = f"it keeps {BOOKINGS_MAX}"
            return Reason(Rule.MACHINE_BUSY, "fewer bookings", had, self._machine)
        characters = sum(map(len, (asked.user, asked.group, *asked.users)))
        if characters > NAMES_MAX:
            needed, had = f"at most {NAMES_MAX} characters of names", f"it has {characters}"
            return Reason(Rule.NOT_RESERVED, needed, had, self._machine)
        of_home = sum(each.reservation.home == home for each in self.kept.values())
        if of_home >= OF_HOME_MAX:
            had = f"{home} has {of_home}"
            return Reason(Rule.MACHINE_BUSY, "fewer bookings of that home", had, self._machine)
        return None

    def _in_its_way(self, kept: KeptBooking, now: Instant) -> Reason | None:
        start_s, end_s = max(kept.start_s, now.steady_s), kept.end_s
        if self._settings.reserves_above:  # what runs gives way in time for the start
            if self._calendar.beside_bookings().is_room(kept.resources, start_s, end_s):
                return None
        elif self._calendar.is_bookable(kept.resources, start_s, end_s):
            return None
        needed = f"what it takes, for {format_duration(end_s - start_s)}"
        for other in self.kept.values():
            if other.start_s < end_s and start_s < other.end_s:
                had = f"{other.reservation} has some of it then"
                return Reason(Rule.RESERVED_AHEAD, needed, had, self._machine)
        had = "tasks that run now may have some of it then"
        return Reason(Rule.MACHINE_BUSY, needed, had, self._machine)

    def _unbook(self, unbook: Unbook, now: Instant) -> None:
        kept = self.kept.get(unbook.reservation)
        if kept is not None and kept.booking.version <= unbook.version:
            self._charge(kept, now)
            self._booked.give_back(unbook.reservation, now)
            self._drop([kept])
            self._booked.extend(self.first_ahead, now)
        reason = Reason(Rule.NOT_RESERVED, "", GIVEN_BACK, self._machine)
        told = NotBooked(unbook.reservation, unbook.version, self._machine, reason)
        self._effects.append(Send(unbook.reservation.home, Part.HOME, told))

    # --- what time brings ------------------------------------------------------------------------

    def settle(self, now: Instant) -> None:
        """Let bookings expire, begin and end, and have claims leave in time for that."""
        self._look_at_clock(now)
        self._expire(now)
        moments = [self._booked.see_to_ends(now)]
        over = [kept for kept in self.kept.values() if kept.end_s <= now.steady_s]
        for kept in over:
            self._charge(kept, now)
            self._booked.close(kept.reservation, now)
        self._drop(over)
        waiting = [kept for kept in self.kept.values() if not kept.is_open]
        waiting.sort(key=lambda kept: kept.start_s)
        moments += self._open(waiting, now)
        for kept in self.kept.values():
            if kept.is_open:
                moments.append(self._meter_unused(kept, now))
        moments += [kept.end_s for kept in self.kept.values()]
        moments += [kept.until_s for kept in waiting if kept.until_s is not None]
        if self.kept or self._claims.bound:
            moments.append(now.steady_s + CLOCK_LOOK_S)
        due_s = min(moments, default=inf)
        self._next_s = None if due_s == inf else due_s

    @property
    def next_s(self) -> float | None:
        """Return when something is due though nothing happens; None: never."""
        return self._next_s

    def _look_at_clock(self, now: Instant) -> None:
        """Map all to the steady clock anew if the wall clock has moved against it."""
        offset_s = now.wall_s - now.steady_s
        if abs(offset_s - self._offset_s) > MOVED_S:
            self._offset_s = offset_s
            for kept in self.kept.values():
                self._charge(kept, now)
                kept.map(offset_s)
            self._booked.bind_anew(self.ends_by_s, now)
            self._changed()

    def _changed(self) -> None:
        """Let the calendar have them as they are now, and the broker hear of them."""
        self._calendar.set_bookings([kept.span for kept in self.kept.values()])
        self._claims.fit_capacity()
        self._is_news = True
        self._report.is_due = True

    def _drop(self, gone: list[KeptBooking]) -> None:
        if gone:
            for kept in gone:
                del self.kept[kept.reservation]
            self._effects.append(Persist(BookingsDropped(tuple(each.reservation for each in gone))))
            self._changed()

    def _expire(self, now: Instant) -> None:
        """End what homes held and did not confirm in time."""
        over = [
            kept
            for kept in self.kept.values()
            if kept.until_s is not None and kept.until_s <= now.steady_s
        ]
        self._drop(over)
        for kept in over:
            needed = "to be confirmed while it was held"
            reason = Reason(Rule.HOLD_EXPIRED, needed, "it was not", self._machine)
            self._refuse(kept.booking, reason)

    def _open(self, waiting: list[KeptBooking], now: Instant) -> list[float]:
        """Open what has started, once nothing is in its way; return when to look again."""
        moments = []
        ending_max_s = self._booked.ending_max_s if waiting else 0.0
        for kept in waiting:
            if kept.start_s > now.steady_s:
                moments.append(kept.start_s)
            if kept.until_s is not None:
                continue  # nothing gives way to what may never be
            if kept.start_s - ending_max_s > now.steady_s:
                moments.append(kept.start_s - ending_max_s)
                continue
            moments.append(self._booked.clear_for(kept.span, now))
            has_room = kept.resources.fits_in(self._calendar.free)
            if kept.start_s <= now.steady_s and has_room:
                kept.is_open = True
                self._changed()
        return moments

    # --- charges ---------------------------------------------------------------------------------

    def _meter_unused(self, kept: KeptBooking, now: Instant) -> float:
        """Charge an open booking if what is not used changed, or a slice is over; return the next.

        After a restart charges begin anew: nothing is charged for the time between.
        """
        unused = self._calendar.left_in(kept.reservation)
        if kept.charged_to_s is None:
            kept.charged_to_s = now.steady_s
            kept.offpeak_mark_s = self._meter.offpeak_so_far_s(now.steady_s)
        elif unused != kept.unused or now.steady_s >= kept.charged_to_s + SLICE_S:
            self._charge(kept, now)
        kept.unused = unused
        return kept.charged_to_s + SLICE_S

    def _charge(self, kept: KeptBooking, now: Instant) -> None:
        """Charge what nobody has used of a booking since it was last charged, until its end."""
        if kept.charged_to_s is None:
            return
        offpeak_s = self._meter.offpeak_so_far_s(now.steady_s)
        until_s = max(kept.charged_to_s, min(now.steady_s, kept.end_s))
        stretch = Stretch(until_s - kept.charged_to_s, offpeak_s - kept.offpeak_mark_s)
        kept.charged_to_s, kept.offpeak_mark_s = until_s, offpeak_s
        factor = self._settings.unused_factor
        self._meter.charge_unused(kept.booking.account, kept.unused, factor, stretch, now)

    # --- claims ----------------------------------------------------------------------------------

    def judge(self, run: Run, now: Instant) -> Reason | None:
        """Return why a task may not run in its reservation's booking; None: it may."""
        self._look_at_clock(now)
        wanted = run.spec.reservation
        assert wanted is not None, "of a task inside"
        kept = self.kept.get(wanted)
        had = ""
        if kept is None or run.attempt.home != wanted.home:
            needed, had = f"a booking of {wanted}", "there is none"
        elif not kept.booking.admits(run.spec.user, run.spec.account):
            needed, had = f"one of the users of {wanted}", f"{run.spec.user} is none"
        elif not kept.is_open:
            needed = f"{wanted} to be open"
            left_s = kept.start_s - now.steady_s
            had = f"it begins in {format_duration(left_s)}" if left_s > 0.0 else "not yet"
        elif self._booked.limit_inside_s(run, kept.end_s, now) <= 0.0:
            needed, had = "time to end in it", f"{wanted} ends in {kept.end_s - now.steady_s:.0f} s"
        if had:
            return Reason(Rule.NOT_RESERVED, needed, had, self._machine)
        resources = self._claims.resources_of(run)
        lacking = resources.lacking_in(self._calendar.left_in(wanted))
        if not lacking:
            return None
        name, amount, there = lacking[0]
        had = f"{describe_amount(name, max(0, there))} free in {wanted}"
        return Reason(Rule.MACHINE_BUSY, describe_amount(name, amount), had, self._machine)

    def bound_inside(self, reservation: ReservationId) -> StayBound:
        """Return by when a claim inside has to be gone."""
        return StayBound(self.kept[reservation].end_s, reservation=reservation)

    def beside(self, run: Run, now: Instant, *, takes_turns: bool) -> Reason | StayBound | None:
        """Return why a claim may not last until its latest end; how it may be bound; None: it may.

        There is room for it now.
        """
        self._look_at_clock(now)
        return self._booked.beside(run, self.first_ahead, now, takes_turns=takes_turns)

    def behind(self, run: Run, now: Instant) -> Reason | None:
        """Return why a claim may not be granted ahead of its place; None: it may."""
        return self._booked.behind(run, self.first_ahead, now)

    def of_waiting(self, held: HeldClaim, now: Instant) -> Reason | None:
        """Return why a claim that was granted ahead may not begin now; None: it may."""
        return self._booked.of_waiting(held, self.first_ahead, now)

    def outside_reason(self, reservation: ReservationId) -> Reason:
        """Return why a task of a reservation does not start: its booking is gone."""
        return self._booked.outside_reason(reservation)

    def cut(self, held: HeldClaim, now: Instant) -> None:
        """Cut the limit of a claim inside that is about to start to what is left then."""
        self._booked.cut(held, now)

    def first_ahead(self, at_s: float) -> KeptBooking | None:
        """Return the booking that starts then, or has but is not open; None: there is none."""
        ahead = [kept for kept in self.kept.values() if not kept.is_open and kept.end_s > at_s]
        return min(ahead, key=lambda kept: abs(kept.start_s - at_s), default=None)

    # --- the broker ------------------------------------------------------------------------------

    def told(self, now: Instant, *, is_whole: bool) -> tuple[BookedTime, ...] | None:
        """Return all of them for the broker; None: it knows them."""
        if not (self.kept or self._is_news):
            return () if is_whole else None
        left = [(each.reservation, self._left_of(each)) for each in self.kept.values()]
        if not is_whole and not self._is_news and left == self._told:
            return None
        self._told, self._is_news = left, False
        return tuple(
            BookedTime(
                kept.reservation,
                kept.resources,
                kept.start_s - now.steady_s,
                kept.end_s - now.steady_s,
                its_left,
                kept.booking.account,
            )
            for kept, (_, its_left) in zip(self.kept.values(), left, strict=True)
        )

    def _left_of(self, kept: KeptBooking) -> Resources | None:
        return self._calendar.left_in(kept.reservation) if kept.is_open else None

    @property
    def left_cpus(self) -> int:
        """Return the cpus of open bookings that no task inside uses."""
        return sum(
            max(0, self._calendar.left_in(kept.reservation).cpus)
            for kept in self.kept.values()
            if kept.is_open
        )

    def check(self) -> None:
        """Raise where claims and bookings do not agree."""
        for held in self._claims.by_attempt.values():
            if held.end is None and not held.claim.is_ahead:
                claim = held.claim
                inside = self._calendar.inside(claim.attempt)
                assert inside == claim.reservation, f"{claim.attempt} is inside {inside}"
                is_bound = bool(claim.reservation or claim.gone_by_wall_s)
                assert is_bound == (claim.attempt in self._claims.bound), f"{claim.attempt}: bound"
        for kept in self.kept.values():
            assert kept.reservation == kept.booking.reservation
            assert not (kept.is_open and kept.until_s is not None), "open, but only held"

"""What a node keeps for reservations: claims with a start and an end (docs/spec/017, section 3).

A booking is wall time, a claim steady time: here they meet. Moments are on the steady clock unless
a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from iriai.model.claim import HOLD_MAX_S, Claim, Phase
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.records import BookingsDropped, BookingStored, ClaimStored
from iriai.model.reservation import Booking
from iriai.model.resources import NOTHING, Resources, describe_amount
from iriai.model.units import format_duration
from iriai.node.booked_claims import BookedClaims
from iriai.node.claims import StayBound
from iriai.node.metering import HeldClaim, Meter
from iriai.node.offer_builder import Availability
from iriai.node.reservations.booking_charges import BookingCharges
from iriai.node.reservations.booking_checks import BookingChecks
from iriai.node.reservations.kept_booking import Ahead, KeptBooking
from iriai.node.reservations.unable_bookings import UnableBookings
from iriai.node.settings import NodeSettings
from iriai.protocol.messages.effects import Part, Persist, Send
from iriai.protocol.messages.reservations import Book, Booked, BookedTime, NotBooked, Unbook
from iriai.protocol.messages.scheduling import Run

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import BookedSpan

MOVED_S = 0.05
"""By how much wall and steady clock have moved against each other before bookings are mapped
anew."""
CLOCK_LOOK_S = 60.0
"""How often that is looked at while nothing else happens."""
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
        self._settings, self._booked = settings, claims
        self._machine = settings.machine
        self._claims, self._report, self._effects = claims.claims, claims.report, claims.effects
        self._calendar = self._claims.calendar
        self._charges = BookingCharges(settings, self._calendar, meter)
        self._checks = BookingChecks(settings, availability, claims.claims)
        self._unable = UnableBookings(availability)
        self.kept: dict[ReservationId, KeptBooking] = {}
        """By reservation, in the order in which they came; only methods of this class change it."""
        self._offset_s = 0.0
        """By how much the wall clock was ahead of the steady one when bookings were mapped."""
        self._next_s: float | None = None
        self.is_freed = False
        """Whether some were given back that still count: what that frees is found once in a turn.
        """
        self._is_news = False
        """Whether the broker has to hear of all of them again."""
        self._told: list[tuple[ReservationId, Resources | None]] = []
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {
            Book: self._book,
            Unbook: self._unbook,
        }

    def stored(self) -> list[Booking]:
        """Return all that a restarted node must find."""
        return [kept.stored for kept in self.kept.values()]

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
            kept = KeptBooking.restored(booking, now, self._offset_s)
            kept.is_open = booking.reservation in inside and kept.until_s is None
            self.kept[booking.reservation] = kept
        if self.kept:
            self._claims.promise(self._settings.capacity.minus(least))
            self._changed()
        for kept in self.kept.values():
            if kept.later is not None and not self._calendar.has_room_for(kept.beside):
                self._tell_later_dropped(kept)

    def _tell_later_dropped(self, kept: KeptBooking) -> None:
        assert kept.later is not None, "it is dropped"
        booking, kept.later = kept.later.booking, None
        self._store(kept)
        self._changed()
        had = "the machine has less than it had"
        self._refuse(booking, Reason(Rule.NOT_RESERVED, "a booking", had, self._machine))

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
        self._free_all(now)
        self._look_at_clock(now)
        self._expire(now)
        asked = book.booking
        kept = self.kept.get(asked.reservation)
        version = None if kept is None else kept.of_version(asked.version)
        if kept is None or version is None:
            self._hold(book, kept, now)
            return
        if asked.phase is not Phase.HELD and version.until_s is not None:
            version.until_s = None
            confirmed = replace(version.booking, phase=Phase.CONFIRMED, held_until_wall_s=0.0)
            version.booking = confirmed
            self._store(kept)
        self._answer(version.booking)

    def _hold(self, book: Book, before: KeptBooking | None, now: Instant) -> None:
        """Hold a booking, beside an earlier version of it if there is one that is confirmed."""
        asked = book.booking
        if before is not None and not (
            asked.phase is Phase.HELD and before.may_have_later(asked.version)
        ):
            had = f"version {(before.later or before).version} of it is kept"
            self._refuse(asked, Reason(Rule.NOT_RESERVED, "no other version", had, self._machine))
            return
        hold_s = min(book.hold_s, HOLD_MAX_S)
        booking = replace(
            asked,
            resources=self._calendar.capacity
            if asked.resources is None
            else NOTHING.plus(asked.resources),  # each name once, as of another machine
            phase=Phase.HELD,
            held_until_wall_s=now.wall_s + hold_s,
            later=None,
        )
        held = KeptBooking(booking, now.steady_s + hold_s)
        held.map(self._offset_s)
        if before is not None and before.later is not None:
            # A home asks for a third only once the second one counts.
            before = self._promote(before, now)
        refused = self._checks.refusal(book, held, self.kept, now)
        if refused is not None:
            self._refuse(asked, refused)
            return
        if before is None:
            before = self.kept[booking.reservation] = held
        else:
            before.later = held
        self._store(before)
        self._changed()
        self._answer(booking)

    def _promote(self, kept: KeptBooking, now: Instant) -> KeptBooking:
        """Let a later version take the place of a booking; return it.

        What runs inside stays there if that goes on.
        """
        from iriai.policy.placement.bookings import positive

        self._free_all(now)
        later = kept.later
        assert later is not None, "there is one"
        self._charges.charge(kept, now)
        more = positive(later.resources.minus(kept.resources))
        goes_on = later.until_s is None and later.covers(now.steady_s)
        later.is_open = kept.is_open and goes_on and more.fits_in(self._calendar.free)
        if kept.is_open and not later.is_open:
            self._booked.give_back(kept.reservation, now)
        if later.is_open:
            later.charged_to_s, later.offpeak_mark_s = kept.charged_to_s, kept.offpeak_mark_s
            later.unused = kept.unused
        self.kept[kept.reservation] = later
        self._store(later)
        self._changed()
        if later.is_open:
            self._booked.bind_anew(self.ends_by_s, now)
        self._booked.extend(self.first_ahead, now)
        return later

    def _store(self, kept: KeptBooking) -> None:
        self._effects.append(Persist(BookingStored(kept.stored)))

    def _answer(self, booking: Booking) -> None:
        reservation, phase = booking.reservation, booking.phase
        unable = None if phase is Phase.HELD else self._unable.reason(booking.user)
        told = Booked(reservation, booking.version, self._machine, phase, unable)
        self._effects.append(Send(reservation.home, Part.HOME, told))

    def _refuse(self, booking: Booking, reason: Reason) -> None:
        told = NotBooked(booking.reservation, booking.version, self._machine, reason)
        self._effects.append(Send(booking.reservation.home, Part.HOME, told))

    def _unbook(self, unbook: Unbook, now: Instant) -> None:
        kept = self.kept.get(unbook.reservation)
        if kept is not None:
            self._free(kept, unbook, now)
        reason = Reason(Rule.NOT_RESERVED, "", GIVEN_BACK, self._machine)
        told = NotBooked(unbook.reservation, unbook.version, self._machine, reason)
        self._effects.append(Send(unbook.reservation.home, Part.HOME, told))

    def _free(self, kept: KeptBooking, unbook: Unbook, now: Instant) -> None:
        """Free the versions of a booking that are meant."""
        first, last = unbook.first, unbook.version
        if kept.later is not None and first <= kept.later.version <= last:
            kept.later = None
            self.is_freed = True
            if not first <= kept.version <= last:
                self._store(kept)
        if first <= kept.version <= last:
            if kept.later is not None:
                self._promote(kept, now)
                return
            self._charges.charge(kept, now)
            if unbook.is_no_show:
                self._charges.charge_no_show(kept, now)
            self._booked.give_back(unbook.reservation, now)
            self._remove([kept])
            self.is_freed = True

    def _free_all(self, now: Instant) -> None:
        """Let what was given back count no more, and claims stay as long as they may then."""
        if self.is_freed:
            self.is_freed = False
            self._changed()
            self._booked.extend(self.first_ahead, now)

    # --- what time brings ------------------------------------------------------------------------

    def unable(self, user: str) -> Reason | None:
        """Return why nothing can run in a booking of a user; None: it can."""
        return self._unable.reason(user)

    def settle(self, now: Instant) -> None:
        """Let bookings expire, begin and end, and have claims leave in time for that."""
        self._free_all(now)
        self._look_at_clock(now)
        self._expire(now)
        moments = [self._booked.see_to_ends(now)]
        over = [kept for kept in self.kept.values() if kept.end_s <= now.steady_s]
        for kept in over:
            self._end(kept, now)
        self._drop([kept for kept in over if kept.later is None])
        waiting = [kept for kept in self.kept.values() if not kept.is_open]
        waiting.sort(key=lambda kept: kept.start_s)
        moments += self._open(waiting, now)
        for kept in self.kept.values():
            if kept.is_open:
                moments.append(self._charges.meter(kept, now))
        for kept in self._unable.changed(self.kept.values(), now):
            self._answer(kept.booking)
        moments += [kept.end_s for kept in self.kept.values()]
        for kept in self.kept.values():
            held = kept.later or kept
            if held.until_s is not None:
                moments.append(held.until_s)
            elif kept.later is not None:
                moments += self._clear(kept.beside, now)
        if self.kept or self._claims.bound:
            moments.append(now.steady_s + CLOCK_LOOK_S)
        due_s = min(moments, default=inf)
        self._next_s = None if due_s == inf else due_s

    @property
    def next_s(self) -> float | None:
        """Return when something is due though nothing happens; None: never."""
        return self._next_s

    def _end(self, kept: KeptBooking, now: Instant) -> None:
        """End a booking whose time is over, or go on with its later version."""
        later = kept.later
        if later is None or later.until_s is not None or not later.covers(now.steady_s):
            self._charges.charge(kept, now)
            self._booked.close(kept.reservation, now)
            kept.is_open = False
        if later is not None:
            self._promote(kept, now)

    def _look_at_clock(self, now: Instant) -> None:
        """Map all to the steady clock anew if the wall clock has moved against it."""
        offset_s = now.wall_s - now.steady_s
        if abs(offset_s - self._offset_s) > MOVED_S:
            self._offset_s = offset_s
            for kept in self.kept.values():
                self._charges.charge(kept, now)
                kept.map(offset_s)
            self._booked.bind_anew(self.ends_by_s, now)
            self._changed()

    def _changed(self) -> None:
        """Let the calendar have them as they are now, and the broker hear of them."""
        self._calendar.set_bookings([span for kept in self.kept.values() for span in kept.spans])
        self._claims.fit_capacity()
        self._is_news = True
        self._report.is_due = True

    def _drop(self, gone: list[KeptBooking]) -> None:
        if gone:
            self._remove(gone)
            self._changed()

    def _remove(self, gone: list[KeptBooking]) -> None:
        """Keep them no more; the caller lets the calendar know."""
        for kept in gone:
            del self.kept[kept.reservation]
        self._effects.append(Persist(BookingsDropped(tuple(each.reservation for each in gone))))

    def _expire(self, now: Instant) -> None:
        """End what homes held and did not confirm in time."""
        over = [kept for kept in self.kept.values() if _is_expired(kept, now)]
        self._drop(over)
        later = [kept for kept in self.kept.values() if kept.later and _is_expired(kept.later, now)]
        expired = [*over, *(kept.later for kept in later if kept.later)]
        for kept in later:
            kept.later = None
            self._store(kept)
        if later:
            self._changed()
        for kept in expired:
            needed = "to be confirmed while it was held"
            reason = Reason(Rule.HOLD_EXPIRED, needed, "it was not", self._machine)
            self._refuse(kept.booking, reason)

    def _open(self, waiting: list[KeptBooking], now: Instant) -> list[float]:
        """Open what has started, once nothing is in its way; return when to look again."""
        moments = []
        ending_max_s = self._booked.ending_max_s if waiting else 0.0
        opened = NOTHING
        for kept in waiting:
            if kept.start_s > now.steady_s:
                moments.append(kept.start_s)
            if kept.until_s is not None:
                continue  # nothing gives way to what may never be
            if kept.start_s - ending_max_s > now.steady_s:
                moments.append(kept.start_s - ending_max_s)
                continue
            moments.append(self._booked.clear_for(kept.span, now))
            together = opened.plus(kept.resources)
            if kept.start_s <= now.steady_s and together.fits_in(self._calendar.free):
                kept.is_open, opened = True, together
        if opened is not NOTHING:
            self._changed()
        return moments

    def _clear(self, spans: Iterable[BookedSpan], now: Instant) -> list[float]:
        """Have what is in the way of a later version leave in time; return when to look again."""
        soon_s = now.steady_s + self._booked.ending_max_s
        return [
            self._booked.clear_for(span, now)
            if span.start_s <= soon_s
            else span.start_s - soon_s + now.steady_s
            for span in spans
        ]

    # --- claims ----------------------------------------------------------------------------------

    def judge(self, run: Run, now: Instant) -> Reason | None:
        """Return why a task may not run in its reservation's booking; None: it may."""
        self._free_all(now)
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
        lacking = resources.lacking_in(self._left_for_more(self.kept[wanted]))
        if not lacking:
            return None
        name, amount, there = lacking[0]
        had = f"{describe_amount(name, max(0, there))} free in {wanted}"
        return Reason(Rule.MACHINE_BUSY, describe_amount(name, amount), had, self._machine)

    def measured(self, held: HeldClaim, cpu_s: float, now: Instant) -> None:
        """Tell the home of a claim inside whether it has used its cpus, which it had not so far."""
        self._booked.measured(held, cpu_s, now)

    def bound_inside(self, reservation: ReservationId) -> StayBound:
        """Return by when a claim inside has to be gone."""
        return StayBound(self.kept[reservation].end_s, reservation=reservation)

    def beside(self, run: Run, now: Instant, *, takes_turns: bool) -> Reason | StayBound | None:
        """Return why a claim may not last until its latest end; how it may be bound; None: it may.

        There is room for it now.
        """
        self._free_all(now)
        self._look_at_clock(now)
        return self._booked.beside(run, self.first_ahead, now, takes_turns=takes_turns)

    def behind(self, run: Run, now: Instant) -> Reason | None:
        """Return why a claim may not be granted ahead of its place; None: it may."""
        self._free_all(now)
        return self._booked.behind(run, self.first_ahead, now)

    def of_waiting(self, held: HeldClaim, now: Instant) -> Reason | None:
        """Return why a claim that was granted ahead may not begin now; None: it may."""
        self._free_all(now)
        return self._booked.of_waiting(held, self.first_ahead, now)

    def outside_reason(self, reservation: ReservationId) -> Reason:
        """Return why a task of a reservation does not start: its booking is gone."""
        return self._booked.outside_reason(reservation)

    def cut(self, held: HeldClaim, now: Instant) -> None:
        """Cut the limit of a claim inside that is about to start to what is left then."""
        self._booked.cut(held, now)

    def _left_for_more(self, kept: KeptBooking) -> Resources:
        """Return what of an open booking one more task may use: what its later version has too."""
        left, later = self._calendar.left_in(kept.reservation), kept.later
        if later is None:
            return left
        from iriai.policy.placement.bookings import lesser

        return lesser(left, later.resources.minus(self._calendar.used_in(kept.reservation)))

    def first_ahead(self, at_s: float) -> Ahead | None:
        """Return the booking that starts then, or has but is not open; None: there is none."""
        spans = self._calendar.bookings
        ahead = [span for span in spans if not span.is_open and span.end_s > at_s]
        first = min(ahead, key=lambda span: abs(span.start_s - at_s), default=None)
        if first is None:
            return None
        kept, start_wall_s = self.kept[first.reservation], first.start_s + self._offset_s
        if first.start_s == kept.start_s:
            start_wall_s = kept.booking.start_wall_s
        return Ahead(first.reservation, first.start_s, start_wall_s)

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
                span.reservation,
                span.resources,
                span.start_s - now.steady_s,
                span.end_s - now.steady_s,
                None if span.is_beside else its_left,
                kept.booking.account,
                span.is_beside,
            )
            for kept, (_, its_left) in zip(self.kept.values(), left, strict=True)
            for span in kept.spans
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
            later = kept.later
            assert later is None or (kept.until_s is None and later.later is None), "three versions"
            assert later is None or later.version > kept.version


def _is_expired(kept: KeptBooking, now: Instant) -> bool:
    return kept.until_s is not None and kept.until_s <= now.steady_s

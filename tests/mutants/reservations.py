"""Small mistakes about reservations; each is found from a seed in which users reserve machines."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from iriai.broker.reservations.bookable_rooms import BookableRoom, profile_above
from iriai.broker.reservations.share_limit import ShareLimit
from iriai.broker.scheduling.booking_offers import _Search
from iriai.home.reservations import use_inside
from iriai.home.reservations.jobs_inside import JobsInside
from iriai.home.reservations.negotiation import Negotiation
from iriai.home.reservations.repeated import RepeatedReservations
from iriai.home.reservations.use_inside import UseInside
from iriai.model.claim import Phase
from iriai.model.reason import Rule
from iriai.model.records import BookingsDropped, BookingStored, ReservationStored
from iriai.model.reservable import Reservable
from iriai.model.reservation import ReservationEnd
from iriai.model.resources import NOTHING
from iriai.node import booked_claims
from iriai.node.booked_claims import BookedClaims
from iriai.node.bookings import NodeBookings
from iriai.node.claims import Claims
from iriai.node.reservations.booking_checks import BookingChecks
from iriai.policy.placement.bookings import Bookings
from iriai.policy.placement.calendar import Calendar
from iriai.protocol.messages.effects import ReservationAnswered
from iriai.protocol.messages.reservations import Booked, Unbook
from tests.mutants.mutants import (
    Patch,
    around,
    instead,
    late_record,
    lost_effect,
    lost_message,
    lost_record,
    nothing,
)


def _at_its_start(whole, calendar, resources, start_s, _end_s, instead_of=None):
    return whole(calendar, resources, start_s, start_s, instead_of)


def _confirms_anything(whole, bookings, booking, reason):
    if booking.phase is Phase.HELD:
        whole(bookings, booking, reason)
    else:
        bookings._answer(booking)


def _with_nothing_kept(whole, bookings, reservation):
    whole(bookings, reservation)
    bookings.kept = NOTHING


def _told_at_once(whole, negotiation, reservation, exchange, now):
    whole(negotiation, reservation, exchange, now)
    decided = negotiation._stored.by_number[reservation.number]
    negotiation._confirm(decided, exchange, now)


def _bound_to_nothing(whole, claims, held, bound, now):
    """A claim inside has its own limit, or none."""
    limit_s = held.claim.limit_s
    whole(claims, held, bound, now)
    held.claim = replace(held.claim, limit_s=limit_s)


def _goes_on_inside(monkeypatch):
    """What runs inside is neither cut nor ended."""
    monkeypatch.setattr(BookedClaims, "cut", nothing)
    monkeypatch.setattr(BookedClaims, "_end_inside", nothing)
    around(Claims, "_bind", _bound_to_nothing)(monkeypatch)


def _comes_above(monkeypatch):
    """Brokers and machines let reservations displace what runs, whatever their cluster says."""
    around(BookingChecks, "_in_its_way", _unless_tasks_are)(monkeypatch)
    around(_Search, "_rooms", _beside_bookings_alone)(monkeypatch)


def _unless_tasks_are(whole, checks, held, kept, now):
    refused = whole(checks, held, kept, now)
    return None if refused is not None and refused.rule is Rule.MACHINE_BUSY else refused


def _beside_bookings_alone(whole, search, view):
    _, beside = whole(search, view)
    return BookableRoom((profile_above(view),), beside.ahead_s), beside


def _over_what_was_promised(whole, search, *given):
    whole(search, *given)
    search._held = {}
    search._parallel.heads = []


def _later_than_was_told(whole, search, head, span):
    told_s = head.told_start_s
    head.told_start_s = None if told_s is None else told_s + 600.0
    whole(search, head, span)
    head.told_start_s = told_s


def _from_the_first(whole, repeated, number, series):
    whole(repeated, number, replace(series, repetition=replace(series.repetition, made=0)))


def _stops_at_a_refusal(whole, repeated, number, now):
    last = repeated._last(number)
    if last is not None and last.end is ReservationEnd.REFUSED:
        repeated._undecided.pop(number, None)
        repeated._runs[number].due_wall_s = inf
    else:
        whole(repeated, number, now)


def _itself_alone(repeated, series, by, now):
    repeated._forget(series.number)
    repeated._negotiation.give_back(series.number, ReservationEnd.CANCELLED, by, now)


def _sleep_is_use(monkeypatch):
    for module in (use_inside, booked_claims):
        monkeypatch.setattr(module, "has_used", lambda *_: True)


def _owners_say_nothing(monkeypatch):
    monkeypatch.setattr(Reservable, "refusal", nothing)
    monkeypatch.setattr(Reservable, "of", lambda _, capacity: capacity)


RESERVATIONS: dict[str, Patch] = {
    # --- node
    "a hold never ends": instead(NodeBookings, "_expire", nothing),
    "a machine books whatever else there is": instead(BookingChecks, "_in_its_way", nothing),
    "a machine evicts for a booking though its cluster does not say so": _comes_above,
    "a machine looks for room at the start alone": around(Calendar, "is_bookable", _at_its_start),
    "a task starts whatever is booked": instead(
        BookedClaims, "beside", lambda *_, takes_turns: None
    ),
    "a machine confirms what it does not hold": around(NodeBookings, "_refuse", _confirms_anything),
    "a machine that comes back has forgotten its bookings": around(
        NodeBookings,
        "restore",
        lambda whole, each, _kept, claims, now: whole(each, (), claims, now),
    ),
    "a booking is not kept": lost_record(BookingStored),
    "a booking is told before it is durable": late_record(BookingStored),
    "what is over is kept": lost_record(BookingsDropped),
    "what an open booking leaves is given to others": around(
        Bookings, "_count_left", _with_nothing_kept
    ),
    "what runs inside goes on after its booking": _goes_on_inside,
    "nothing leaves for a booking": instead(BookedClaims, "_evict", nothing),
    "a machine takes no notice of a clock that was set": instead(
        NodeBookings, "_look_at_clock", nothing
    ),
    # --- home
    "who asked is told before all machines have it": around(Negotiation, "_decide", _told_at_once),
    "a decision is told before it is durable": late_record(ReservationStored),
    "a home that comes back does not go on": instead(Negotiation, "rejoin", nothing),
    "what was given up is not freed": lost_message(Unbook),
    "a home hears nothing of machines": lost_message(Booked),
    "nobody is told": lost_effect(ReservationAnswered),
    "a home that comes back makes an occurrence again": around(
        RepeatedReservations, "_begin", _from_the_first
    ),
    "a series ends with the occurrence that cannot be had": around(
        RepeatedReservations, "_go_on", _stops_at_a_refusal
    ),
    "a home that comes back forgets what it sought for a series": instead(
        Negotiation, "_resume", nothing
    ),
    "a series that is cancelled leaves its occurrences": instead(
        RepeatedReservations, "cancel", _itself_alone
    ),
    "a reservation is given back whatever runs inside": instead(
        JobsInside, "may_use", lambda *_: False
    ),
    "what a task has used until its end does not count": instead(UseInside, "ended", nothing),
    "a task that sleeps has used its reservation": _sleep_is_use,
    # --- broker
    "a broker offers places that it has promised": around(
        _Search, "__init__", _over_what_was_promised
    ),
    "a broker puts starts off beyond what it told": around(
        _Search, "_put_it_off", _later_than_was_told
    ),
    # --- limits
    "all of a machine can be reserved whatever its owner says": _owners_say_nothing,
    "an account reserves more than its share": instead(ShareLimit, "over", nothing),
    "what was offered a moment ago does not count": instead(ShareLimit, "note", nothing),
    # --- jobs
    "what waits for a reservation that is over starts all the same": instead(
        JobsInside, "withdraw", nothing
    ),
}
"""By what is wrong."""

"""Small mistakes about later versions of reservations, and nodes that are lost."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from iriai.home.reservations.modification import Modification
from iriai.home.reservations.negotiation import Negotiation
from iriai.home.reservations.replacement import Replacement
from iriai.node.bookings import NodeBookings
from iriai.node.reservations.booking_checks import BookingChecks
from iriai.node.reservations.kept_booking import KeptBooking
from iriai.protocol.messages.reservations import Unbook
from tests.mutants.mutants import Patch, around, instead, nothing


def _instead_of_it(whole, bookings, book, before, now):
    whole(bookings, book, before, now)
    kept = bookings.kept.get(book.booking.reservation)
    if before is not None and kept is not None and kept.later is not None:
        bookings._promote(kept, now)


def _told_at_once(whole, modification, reservation, exchange, now):
    whole(modification, reservation, exchange, now)
    decided = modification._stored.by_number[reservation.number]
    modification._confirm(decided, exchange, now)


def _freed_at_once(whole, modification, reservation, exchange, now):
    whole(modification, reservation, exchange, now)
    stands = modification._kept_versions.by_number[reservation.number]
    unbook = Unbook(modification._stored.named(stands.number), stands.version)
    for machine in stands.nodes:
        modification._send(machine, unbook)


def _stands_all_the_same(whole, modification, reservation, end, asked, now):
    whole(modification, reservation, end, asked, now)
    kept = modification._kept_versions
    stands = kept.by_number[reservation.number]
    kept.store(replace(stands, terms=reservation.terms))


def _without_the_nodes(whole, modification, reservation, exchange, now):
    nodes = modification._kept_versions.by_number[reservation.number].nodes
    whole(modification, replace(reservation, nodes=nodes), exchange, now)


def _unless_it_is_later(whole, checks, held, kept, now):
    return None if held.reservation in kept else whole(checks, held, kept, now)


def _loses_what_was_next(whole, modification, kept, *others):
    for number, reservation in list(kept.by_number.items()):
        kept.by_number[number] = replace(reservation, next=None)
    whole(modification, kept, *others)


VERSIONS: dict[str, Patch] = {
    "a machine drops a booking when it holds its later version": around(
        NodeBookings, "_hold", _instead_of_it
    ),
    "a later version stands before all machines have it": around(
        Modification, "_decide", _told_at_once
    ),
    "a home tells that it keeps what was decided, and frees it": around(
        Modification, "_decide", _freed_at_once
    ),
    "terms that could not be had stand": around(Modification, "_over", _stands_all_the_same),
    "a later version has the nodes of the one before": around(
        Modification, "_confirm", _without_the_nodes
    ),
    "a later version is booked whatever else there is": around(
        BookingChecks, "_in_its_way", _unless_it_is_later
    ),
    "a later version that comes to nothing frees what stands": instead(
        Modification, "_first_version", lambda *_: 0
    ),
    "what a later version takes is not on the calendar": instead(
        KeptBooking, "beside", property(lambda _: [])
    ),
    "a home that comes back has forgotten later versions": around(
        Modification, "__init__", _loses_what_was_next
    ),
    "what stands is not freed once it does not": instead(Negotiation, "frees", nothing),
    "a home does not see that machines are gone": instead(
        Replacement, "_note_lost", lambda replacement, _now: replacement._down_s.clear()
    ),
    "no other machine is sought for one that is lost": instead(
        Replacement,
        "_seek",
        lambda replacement, number, _now: replacement._due_s.update({number: inf}),
    ),
}
"""By what is wrong."""

"""The judge of reservations: what homes and nodes have durably of them, from their databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from iriai.model.claim import Phase
from iriai.model.ids import ReservationId
from iriai.model.reservation import Booking, Reservation, ReservationState
from iriai.store.codec import decode_booking, decode_reservation
from tests.endtoend.network import Networked

Stored = TypeVar("Stored")

SETTLED = (ReservationState.CONFIRMED, ReservationState.OPEN, ReservationState.OVER)


class Kept(NamedTuple):
    """What the machines have, at about one time."""

    reservations: dict[ReservationId, Reservation]
    """As their homes have them."""
    bookings: dict[ReservationId, dict[str, Booking]]
    """Of each reservation of which any machine has one: by machine."""

    def is_settled(self) -> bool:
        """Whether every home has decided what is to be, and heard that all else is freed."""
        return all(
            each.state in SETTLED and not each.unanswered and each.next is None
            for each in self.reservations.values()
        )

    def check(self) -> None:
        """Raise unless all nodes of a reservation have it, of the version that counts, or none."""
        assert self.bookings.keys() <= self.reservations.keys(), f"of no reservation: {self}"
        for named, reservation in self.reservations.items():
            has = self.bookings.get(named, {})
            expected = () if reservation.is_over else reservation.nodes
            assert sorted(has) == sorted(expected), f"{named}: {reservation} is kept by {has}"
            for machine, booking in has.items():
                terms = reservation.terms
                kept = (booking.version, booking.start_wall_s, booking.end_wall_s, booking.phase)
                right = (reservation.version, terms.start_wall_s, terms.end_wall_s, Phase.CONFIRMED)
                assert kept == right, f"{named} on {machine}: {booking}"
                assert booking.later is None, f"{named} on {machine}: {booking}"


def kept_by(machines: Iterable[Networked]) -> Kept:
    """Return what the databases of these machines have; their daemons run, and are not asked."""
    reservations: dict[ReservationId, Reservation] = {}
    bookings: dict[ReservationId, dict[str, Booking]] = {}
    for machine in machines:
        path = Path(machine.paths.database)
        for each in _read(path, "SELECT reservation FROM reservations", decode_reservation):
            reservations[ReservationId(machine.name, each.number)] = each
        for booking in _read(path, "SELECT booking FROM bookings", decode_booking):
            bookings.setdefault(booking.reservation, {})[machine.name] = booking
    return Kept(reservations, bookings)


def _read(path: Path, query: str, decode: Callable[[bytes], Stored]) -> list[Stored]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return [decode(content) for (content,) in connection.execute(query)]

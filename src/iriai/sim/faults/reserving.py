"""What happens to reservations in a scenario: requests of users, and the steps of a daemon."""

from __future__ import annotations

from iriai.model.claim import Phase
from iriai.model.records import BookingStored, Record, ReservationStored
from iriai.model.reservation import NextVersion, Reservation, ReservationState
from iriai.sim.faults.user_requests import AskedReservation, ChangedReservation
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

_STEPS = len(ReservationState)
RESERVING_STEPS = 2 * (_STEPS + 2)
"""Steps of a home with a reservation, of a node with a booking; and those of later versions."""
DECIDED, NEXT_ASKED, NEXT_DECIDED = 1, _STEPS + 2, _STEPS + 3
"""Steps of a home: it has stored that it is to be; and which nodes it asks for a next version."""
LATER_HELD, LATER_CONFIRMED = (2 * _STEPS + 1 + phase for phase in (Phase.HELD, Phase.CONFIRMED))
"""Steps of a node with a later version."""


def reserve(
    world: World, machine: SimulatedMachine, asked: AskedReservation | ChangedReservation | None
) -> None:
    """Ask a home for a reservation; raises `Problem` as that does."""
    assert isinstance(asked, AskedReservation), "a new one"
    now = machine.clock.at(world.now_s)
    reservations = machine.core.home.reservations
    if not asked.every:
        reservation = reservations.ask(asked.terms(now), now)
        machine.asked_reservations[reservation.number] = machine.core
        return
    _, first = reservations.ask_every(asked.terms(now), asked.every, "", now)
    if first is not None and not reservations.get(first.number).is_over:
        machine.asked_reservations[first.number] = machine.core


def modify(
    world: World,
    machine: SimulatedMachine,
    number: int,
    change: AskedReservation | ChangedReservation | None,
) -> None:
    """Ask a home for a change of a reservation; raises `Problem` as that does."""
    assert isinstance(change, ChangedReservation), "of one that is there"
    reservations, now = machine.core.home.reservations, machine.clock.at(world.now_s)
    reservations.modify(number, change.terms(reservations.get(number).terms), now)
    machine.asked_reservations[number] = machine.core


def reserving_step_of(record: Record) -> int | None:
    """Return the number of the step that a record is, of a home or of a node; None: of neither."""
    if isinstance(record, ReservationStored):
        following = record.reservation.next
        if following is not None:
            step = _step_of(following)
            return None if step is None else _STEPS + 2 + step
        return _step_of(record.reservation)
    if not isinstance(record, BookingStored):
        return None
    later = record.booking.later
    if later is not None:
        return 2 * _STEPS + 1 + later.phase.value
    return _STEPS - 1 + record.booking.phase.value


def _step_of(reservation: Reservation | NextVersion) -> int | None:
    is_asked = reservation.state is not ReservationState.SEEKING or reservation.nodes
    return tuple(ReservationState).index(reservation.state) if is_asked else None

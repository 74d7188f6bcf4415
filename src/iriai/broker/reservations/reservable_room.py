"""What of a machine may be reserved, and when, as its owner lets it be (docs/spec/017)."""

from __future__ import annotations

from iriai.broker.machines.machine_view import MachineView
from iriai.model.ids import ReservationId
from iriai.policy.placement.bookings import RoomProfile


def reservable_room(
    view: MachineView, room: RoomProfile, own: ReservationId | None = None
) -> RoomProfile:
    """Return what of `room` may be booked, beside all bookings that are there but `own`."""
    if view.reservable.part >= 1.0:
        return room
    most = view.reservable.of(view.calendar.capacity)
    others = (each for each in view.calendar.bookings if each.reservation != own)
    return room.within(RoomProfile(most, (), others))

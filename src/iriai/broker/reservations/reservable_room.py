"""What of a machine may be reserved, and when, as its owner lets it be (docs/spec/017)."""

from __future__ import annotations

from iriai.broker.machines.machine_view import MachineView
from iriai.policy.placement.bookings import RoomProfile


def reservable_room(view: MachineView, room: RoomProfile) -> RoomProfile:
    """Return what of `room` may be booked, beside all bookings that are there."""
    if view.reservable.part >= 1.0:
        return room
    most = view.reservable.of(view.calendar.capacity)
    return room.within(RoomProfile(most, (), view.calendar.bookings))

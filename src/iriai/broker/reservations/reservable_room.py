"""What of a machine may be reserved, and when, as its owner lets it be (docs/spec/017)."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.broker.machines.machine_view import MachineView
from iriai.policy.placement.bookings import HeldSpan, RoomProfile


def reservable_room(view: MachineView, held: Iterable[HeldSpan]) -> RoomProfile:
    """Return what is free for bookings beside claims, bookings, and what else is `held`."""
    room = view.calendar.profile(held)
    if view.reservable.part >= 1.0:
        return room
    most = view.reservable.of(view.calendar.capacity)
    return room.within(RoomProfile(most, (), view.calendar.bookings))

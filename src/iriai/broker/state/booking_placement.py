"""Where tasks of reservations start: in open bookings, beside all that others have.

What they take is in no free resources, and no place of a reserved head: so it is sought apart, on
the few machines of a reservation (docs/spec/017, section 6).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import TaskClass
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.seats import Room, Seat, Seats, rank_fit, seats_of

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import BookedSpan


class BookingPlacement:
    """Lives as long as the broker."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        self.work = 0
        """Work so far, in examined machines."""

    def could_hold(self, kind: TaskClass) -> bool:
        """Return whether its reservation is open, and large enough for a task of that kind."""
        rooms: dict[str, list[Room]] = {}
        for view in self._index.booked.of(kind.key.reservation):
            booking = booking_of(view, kind)
            if booking is not None and kind.may_run_on(view.name):
                _add(rooms, kind, view, _ranks(kind, view, booking.resources))
        return any(seats_of(each, kind.key.shape) for each in rooms.values())

    def seats(self, kind: TaskClass, now_s: float) -> Seats | None:
        """Return where a task of that kind starts now; None: there is no room."""
        views = {view.name: view for view in self._index.booked.of(kind.key.reservation)}
        rooms: dict[str, list[Room]] = {}
        for view in views.values():
            self.work += 1
            if may_start_inside(view, kind, now_s):
                _add(rooms, kind, view, _ranks(kind, view, left_for(view, kind)))
        for pool in rooms.values():
            tiers = _tiers(kind, pool)
            able = [each._replace(tier=tiers.get(each.machine, 0)) for each in pool]
            able.sort(key=lambda room: (room.tier, -room.fit, views[room.machine].rank()))
            found = seats_of(able, kind.key.shape) if kind.is_wide else (Seat(able[0].machine, 1),)
            if found:
                return found
        return None


def may_start_inside(view: MachineView, kind: TaskClass, now_s: float) -> bool:
    """Return whether a task may start in a machine's booking, if there is room in that."""
    booking, least_s = booking_of(view, kind), kind.key.least_s or 0.0
    return (
        booking is not None
        and booking.end_s > now_s + least_s + EARLIER_S
        and view.is_available
        and not view.is_pool_full
        and (not view.mints or bool(view.capabilities))
        and kind.key.tenant not in view.tenants
        and kind.may_run_on(view.name)
    )


def booking_of(view: MachineView, kind: TaskClass) -> BookedSpan | None:
    """Return the open booking on a machine in which tasks of a kind run; None: there is none."""
    bookings: Iterable[BookedSpan] = view.calendar.bookings
    inside = (each for each in bookings if each.reservation == kind.key.reservation)
    return next((each for each in inside if each.is_open), None)


def left_for(view: MachineView, kind: TaskClass) -> Resources:
    """Return what is left of the open booking in which tasks of a kind run.

    What was matched just before it opened has some of it until its machine refuses that.
    """
    assert kind.key.reservation is not None
    calendar = view.calendar
    left = calendar.left_in(kind.key.reservation)
    if NOTHING.fits_in(calendar.free):
        return left
    from iriai.policy.placement.bookings import positive

    return positive(left.minus(positive(NOTHING.minus(calendar.free))))


def _ranks(kind: TaskClass, view: MachineView, room: Resources) -> int:
    """Return how many ranks of a task fit in so much of a machine."""
    if kind.key.exclusive and room != view.calendar.capacity:
        return 0
    return min(rank_fit(kind.key.resources, room), kind.key.shape.most)


def _add(rooms: dict[str, list[Room]], kind: TaskClass, view: MachineView, ranks: int) -> None:
    """Note the room on a machine with those from which a task may take machines as well."""
    if ranks:
        is_any = kind.key.across_pools or not kind.is_wide
        rooms.setdefault("" if is_any else view.pool, []).append(Room(view.name, ranks))


def _tiers(kind: TaskClass, rooms: list[Room]) -> dict[str, int]:
    """Return the place of each machine by the ranks of job and owner; empty: all are alike."""
    demand = kind.demand
    if demand is None or not demand.is_ranked:
        return {}
    orders = {room.machine: demand.order(room.machine) for room in rooms}
    tiers = {order: tier for tier, order in enumerate(sorted(set(orders.values())))}
    return {machine: tiers[order] for machine, order in orders.items()}

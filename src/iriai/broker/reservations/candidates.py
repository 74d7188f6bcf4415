"""The machines that could take a booking at some time, and their order."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import inf
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.reservations.bookable_rooms import BookableRoom
from iriai.model.resources import Resources


class Candidate(NamedTuple):
    """A machine, and when it could take what of it."""

    view: MachineView
    need: Resources
    room: BookableRoom
    beside: BookableRoom
    """Where nothing has to give way; it is preferred."""


Preference = tuple[bool, bool, bool, bool, int, str]


def preference(
    start_s: float, end_s: float, kept: Container[str]
) -> Callable[[Candidate], Preference]:
    """Return the order in which machines are taken for that time.

    Those on which nothing gives way come first, then those that have an earlier version (`kept`),
    those without an owner, steady ones, and those that are less booked.
    """

    def key(candidate: Candidate) -> Preference:
        view, room, beside = candidate.view, candidate.room, candidate.beside
        displaces = room is not beside and not beside.is_room(candidate.need, start_s, end_s)
        is_owned, bookings = view.idle_until_s < inf, len(view.calendar.bookings)
        is_new = view.name not in kept
        return (displaces, is_new, is_owned, view.back_off.is_in_doubt, bookings, view.name)

    return key

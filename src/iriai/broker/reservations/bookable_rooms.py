"""When a machine could take a booking, by the cluster's policy (docs/spec/017, section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.reservations.reservable_room import reservable_room
from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from iriai.policy.placement.bookings import HeldSpan, RoomProfile


class BookableRoom(NamedTuple):
    """What is free on a machine for a booking: it fits where it does in one of the profiles."""

    profiles: tuple[RoomProfile, ...]

    @property
    def steps(self) -> int:
        """Return how many steps there are: the time of each look grows with them."""
        return sum(len(each.times) for each in self.profiles)

    def is_room(self, resources: Resources, start_s: float, end_s: float) -> bool:
        """Return whether a booking fits all that time."""
        return any(each.is_room(resources, start_s, end_s) for each in self.profiles)

    def run_from(
        self, resources: Resources, length_s: float, from_s: float
    ) -> tuple[float, float] | None:
        """Return the first moment from which a booking fits for so long, and until when."""
        if len(self.profiles) == 1:
            return self.profiles[0].run_from(resources, length_s, from_s)
        runs = [each.run_from(resources, length_s, from_s) for each in self.profiles]
        found = [each for each in runs if each is not None]
        return min(found, key=lambda run: (run[0], -run[1]), default=None)


def room_beside(
    view: MachineView, held: Sequence[HeldSpan], own: ReservationId | None = None
) -> BookableRoom:
    """Return what neither claims nor bookings need, nor what is `held` for promised tasks.

    `own`: the reservation whose booking does not count, nor the claims inside.
    """
    return BookableRoom((reservable_room(view, view.calendar.profile(held, own), own),))


def room_above(view: MachineView, own: ReservationId | None = None) -> BookableRoom:
    """Return what bookings alone leave: claims give way, and promises move; `own` as above."""
    return BookableRoom((reservable_room(view, view.calendar.beside_bookings(own), own),))


def room_with_slack(
    view: MachineView,
    held: Sequence[HeldSpan],
    put_off: Sequence[HeldSpan],
    own: ReservationId | None = None,
) -> BookableRoom:
    """Return what is free if what is `held` stays, or is `put_off` as far as was told.

    `own` as above. A booking is over before a place that is put off, or begins after one that
    stays. Where both have room at once it may fit in neither profile, and in some between.
    """
    profiles = (view.calendar.profile(spans, own) for spans in (held, put_off))
    return BookableRoom(tuple(reservable_room(view, each, own) for each in profiles))


def latest_start_s(
    profile: RoomProfile, span: HeldSpan, until_s: float, length_s: float
) -> float | None:
    """Return the latest start until `until_s` from which there is room for a place for so long.

    None: there is none that is later than the start of `span`.
    """
    candidates = [until_s, *(time_s - length_s for time_s in profile.times)]
    later = sorted((s for s in candidates if span.from_s < s <= until_s), reverse=True)
    fitting = (s for s in later if profile.is_room(span.resources, s, s + length_s))
    return next(fitting, None)

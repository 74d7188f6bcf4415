"""When a machine could take a booking, by the cluster's policy (docs/spec/017, section 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.reservations.reservable_room import reservable_room
from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from iriai.policy.placement.bookings import HeldSpan, RoomProfile

TINY_S = 1e-6
"""Times on the clock of a machine and back again differ by rounding."""


class BookableRoom(NamedTuple):
    """What is free on a machine for a booking: it fits where it does in one of the profiles."""

    profiles: tuple[RoomProfile, ...]
    ahead_s: float = 0.0
    """The wall clock of the machine minus the broker's: it opens a booking so much earlier."""

    @property
    def steps(self) -> int:
        """Return how many steps there are: the time of each look grows with them."""
        return sum(len(each.times) for each in self.profiles)

    def times(self) -> Iterator[float]:
        """Yield the moments at which there may be more room than before."""
        for profile in self.profiles:
            yield from (each + self.ahead_s for each in profile.times)

    def is_room(self, resources: Resources, start_s: float, end_s: float) -> bool:
        """Return whether a booking fits all that time."""
        if self.ahead_s:
            start_s, end_s = start_s - self.ahead_s + TINY_S, end_s - self.ahead_s - TINY_S
        return any(each.is_room(resources, start_s, end_s) for each in self.profiles)

    def run_from(
        self, resources: Resources, length_s: float, from_s: float
    ) -> tuple[float, float] | None:
        """Return the first moment from which a booking fits for so long, and until when."""
        at_s = from_s - self.ahead_s
        runs = [each.run_from(resources, length_s, at_s) for each in self.profiles]
        found = [each for each in runs if each is not None]
        if not found:
            return None
        start_s, end_s = found[0] if len(found) == 1 else min(found, key=_soonest)
        return max(from_s, start_s + self.ahead_s), end_s + self.ahead_s


def _soonest(run: tuple[float, float]) -> tuple[float, float]:
    return run[0], -run[1]


def profile_beside(
    view: MachineView,
    held: Sequence[HeldSpan],
    away_s: float,
    own: ReservationId | None = None,
) -> RoomProfile:
    """Return what neither claims nor bookings need, nor what is `held` for promised tasks.

    From `held` a booking stays away so far, as the machine's clock may be off. `own`: the
    reservation whose booking does not count, nor the claims inside.
    """
    profile = view.calendar.profile(held, own)
    return reservable_room(view, profile.kept_away(held, away_s) if held else profile, own)


def profile_above(view: MachineView, own: ReservationId | None = None) -> RoomProfile:
    """Return what bookings alone leave: claims give way, and promises move; `own` as above."""
    return reservable_room(view, view.calendar.beside_bookings(own), own)


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

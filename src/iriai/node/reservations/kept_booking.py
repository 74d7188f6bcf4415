"""A booking as a node keeps it, and the later version that it may keep beside it.

docs/spec/017, section 4, has the rules. Moments are on the steady clock unless a name says
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from iriai.model.claim import HOLD_MAX_S, Phase
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.reservation import BookedVersion, Booking
from iriai.model.resources import NOTHING, Resources

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import BookedSpan

SPANS_MAX = 4
"""Times in which one booking takes something: its own, and of a later version three beside it."""


class Ahead(NamedTuple):
    """A booking, or a part of its later version, that begins at a moment."""

    reservation: ReservationId
    start_s: float
    start_wall_s: float


@dataclass(slots=True)
class KeptBooking:
    """A booking, and where it lies on the steady clock."""

    booking: Booking
    """Without its later version."""
    until_s: float | None
    """When it ends by itself; None: it is confirmed."""
    start_s: float = 0.0
    end_s: float = 0.0
    is_open: bool = False
    """Whether its resources are those of tasks inside, and nobody else's."""
    charged_to_s: float | None = None
    """Until when what nobody used of it was charged; None: it is not open, or not charged yet."""
    offpeak_mark_s: float = 0.0
    """The off-peak time until then."""
    unused: Resources = NOTHING
    """What no claim inside has used since."""
    later: KeptBooking | None = None
    """The version that takes its place once this one is freed; only of one that is confirmed."""

    @staticmethod
    def restored(booking: Booking, now: Instant, offset_s: float) -> KeptBooking:
        """Return a booking as it was stored."""
        left_s = min(HOLD_MAX_S, booking.held_until_wall_s - now.wall_s)
        is_held = booking.phase is Phase.HELD
        kept = KeptBooking(replace(booking, later=None), now.steady_s + left_s if is_held else None)
        kept.map(offset_s)
        if booking.later is not None:
            kept.later = KeptBooking.restored(_booking_of(booking, booking.later), now, offset_s)
        return kept

    @property
    def reservation(self) -> ReservationId:
        """Return whose booking it is."""
        return self.booking.reservation

    @property
    def version(self) -> int:
        """Return of which version of the terms it is."""
        return self.booking.version

    @property
    def resources(self) -> Resources:
        """Return what it takes."""
        return self.booking.resources or NOTHING

    @property
    def stored(self) -> Booking:
        """Return what a restarted node must find."""
        if self.later is None:
            return self.booking
        return replace(self.booking, later=_version_of(self.later.booking))

    def of_version(self, version: int) -> KeptBooking | None:
        """Return what is kept of a version; None: nothing."""
        if self.version == version:
            return self
        return self.later if self.later is not None and self.later.version == version else None

    def may_have_later(self, version: int) -> bool:
        """Return whether a version may be held beside what is confirmed."""
        newest = self.later or self
        return newest.until_s is None and version > newest.version

    def map(self, offset_s: float) -> None:
        """Take its times from the wall clock, which is so far ahead of the steady one."""
        self.start_s = self.booking.start_wall_s - offset_s
        self.end_s = self.booking.end_wall_s - offset_s
        if self.later is not None:
            self.later.map(offset_s)

    def covers(self, now_s: float) -> bool:
        """Return whether its time has begun and is not over."""
        return self.start_s <= now_s < self.end_s

    @property
    def span(self) -> BookedSpan:
        """Return it as a calendar knows it, without its later version."""
        from iriai.policy.placement.bookings import BookedSpan

        return BookedSpan(
            self.reservation, self.start_s, self.end_s, self.resources, is_open=self.is_open
        )

    @property
    def spans(self) -> list[BookedSpan]:
        """Return all that it takes: at every moment what it or its later version does."""
        return [self.span] if self.later is None else [self.span, *self.beside]

    @property
    def beside(self) -> list[BookedSpan]:
        """Return what its later version takes beyond it, and when."""
        if self.later is None:
            return []
        from iriai.policy.placement.bookings import BookedSpan, positive

        later, own = self.later, self.span
        more = positive(later.resources.minus(self.resources))
        pieces = (
            (later.start_s, min(later.end_s, own.from_s), later.resources),
            (max(later.start_s, own.from_s), min(later.end_s, own.end_s), more),
            (max(later.start_s, own.end_s), later.end_s, later.resources),
        )
        return [
            BookedSpan(self.reservation, start_s, end_s, resources, is_beside=True)
            for start_s, end_s, resources in pieces
            if start_s < end_s and not resources.fits_in(NOTHING)
        ]


def _version_of(booking: Booking) -> BookedVersion:
    return BookedVersion(
        booking.version,
        booking.start_wall_s,
        booking.end_wall_s,
        booking.resources,
        booking.users,
        booking.group,
        booking.phase,
        booking.held_until_wall_s,
    )


def _booking_of(kept: Booking, later: BookedVersion) -> Booking:
    """Return the later version of a booking as one of its own."""
    return replace(
        kept,
        version=later.version,
        start_wall_s=later.start_wall_s,
        end_wall_s=later.end_wall_s,
        resources=later.resources,
        users=later.users,
        group=later.group,
        phase=later.phase,
        held_until_wall_s=later.held_until_wall_s,
        later=None,
    )

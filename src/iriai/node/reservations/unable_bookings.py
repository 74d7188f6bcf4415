"""What a node tells homes of bookings that it keeps, and in which nothing can run.

It is drained, or its owner has it back for good: such a node is replaced (docs/spec/017).
"""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.node.offer_builder import Availability
from iriai.node.reservations.kept_booking import KeptBooking

AGAIN_S = 60.0
"""What a home was told may be lost: it is told again."""


class UnableBookings:
    """Knows which homes were told."""

    def __init__(self, availability: Availability) -> None:
        self._availability = availability
        self._told: dict[ReservationId, None] = {}
        """The reservations whose homes know that nothing can run here."""
        self._again_s = 0.0

    def reason(self, user: str) -> Reason | None:
        """Return why nothing can run in a booking of a user; None: it can."""
        availability = self._availability
        if availability.drained is not None:
            return availability.reason()
        exempts = availability.exempts
        if not availability.is_vacated or (exempts is not None and exempts(user)):
            return None
        return availability.owner

    def changed(self, kept: Iterable[KeptBooking], now: Instant) -> list[KeptBooking]:
        """Return the bookings whose homes are to be told how it is now."""
        availability = self._availability
        if not (self._told or availability.drained is not None or availability.is_vacated):
            return []
        is_again = now.steady_s >= self._again_s
        if is_again:
            self._again_s = now.steady_s + AGAIN_S
        before, self._told = self._told, {}
        found = []
        for each in kept:
            if each.until_s is not None:
                continue
            is_unable = self.reason(each.booking.user) is not None
            if is_unable:
                self._told[each.reservation] = None
            if is_unable is not (each.reservation in before) or (is_unable and is_again):
                found.append(each)
        return found

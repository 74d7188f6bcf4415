"""A calendar with bookings, computed second by second from what it was told."""

from __future__ import annotations

from dataclasses import dataclass, field

from iriai.model.ids import ReservationId
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.bookings import BookedSpan, positive

HORIZON_S = 80
"""By then all is over; whole seconds before are looked at."""


def reservation(number: int) -> ReservationId:
    return ReservationId("ume", number)


@dataclass
class NaiveClaim:
    key: int
    resources: Resources
    end_s: float
    inside: ReservationId | None = None
    is_ahead: bool = False


@dataclass
class NaiveCalendar:
    capacity: Resources
    claims: list[NaiveClaim] = field(default_factory=list)
    """In the order in which they were granted."""
    spans: list[BookedSpan] = field(default_factory=list)

    def covers(self, span: BookedSpan, moment_s: float) -> bool:
        return (span.is_open or span.start_s <= moment_s) and moment_s < span.end_s

    def is_outside(self, claim: NaiveClaim, moment_s: float) -> bool:
        return not any(
            span.reservation == claim.inside and self.covers(span, moment_s) for span in self.spans
        )

    def room(self, moment_s: float) -> Resources:
        """What claims, until their ends, and bookings leave at a moment ahead."""
        room = self.capacity
        for claim in self.claims:
            if claim.end_s > moment_s and self.is_outside(claim, moment_s):
                room = room.minus(claim.resources)
        for span in self.spans:
            if self.covers(span, moment_s):
                room = room.minus(span.resources)
        return room

    def left_in(self, number: ReservationId) -> Resources:
        used = NOTHING
        for claim in self.claims:
            if claim.inside == number:
                used = used.plus(claim.resources)
        for span in self.spans:
            if span.reservation == number and span.is_open:
                return positive(span.resources.minus(used))
        return NOTHING

    @property
    def free(self) -> Resources:
        free = self.capacity
        for claim in self.claims:
            free = free if claim.is_ahead else free.minus(claim.resources)
        for span in self.spans:
            free = free.minus(self.left_in(span.reservation))
        return free

    def is_reserved(self, moment_s: float) -> bool:
        return any(not span.is_open and self.covers(span, moment_s) for span in self.spans)

    def fits(self, resources: Resources, now_s: int, stay_s: int) -> bool:
        return resources.fits_in(self.free) and all(
            resources.fits_in(self.room(moment_s))
            for moment_s in range(now_s, now_s + stay_s)
            if self.is_reserved(moment_s)
        )

    def is_bookable(self, resources: Resources, start_s: int, end_s: int) -> bool:
        return all(resources.fits_in(self.room(moment_s)) for moment_s in range(start_s, end_s))

    def bookable_from_s(self, resources: Resources, length_s: int, from_s: int) -> int | None:
        starts = range(from_s, HORIZON_S)
        return next(
            (
                start_s
                for start_s in starts
                if self.is_bookable(resources, start_s, start_s + length_s)
            ),
            None,
        )

    def in_the_way(self, start: BookedSpan) -> list[int]:
        """Those that do not fit beside bookings and what was granted before, the last first."""
        others = [span for span in self.spans if span.reservation != start.reservation]
        after = NaiveCalendar(self.capacity, [], [*others, start])
        moments = [each for each in range(-1, HORIZON_S) if after.covers(start, each)]
        rooms = {each: positive(after.room(each)) for each in moments}
        found = []
        for claim in self.claims:
            if claim.is_ahead:
                continue
            held = [
                each for each in moments if claim.end_s > each and after.is_outside(claim, each)
            ]
            if all(claim.resources.fits_in(rooms[each]) for each in held):
                rooms.update((each, rooms[each].minus(claim.resources)) for each in held)
            else:
                found.append(claim.key)
        return found[::-1]

"""The part of a machine that its owner lets be reserved at once (docs/spec/017, section 3)."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.placement.bookings import BookedSpan, RoomProfile


def more_than_reservable(
    most: Resources, asked: BookedSpan, others: Iterable[BookedSpan], machine: str
) -> Reason | None:
    """Return why a booking is too much beside the others, of so much at once; None: it is not."""
    booked = RoomProfile(most, (), others)
    if booked.is_room(asked.resources, asked.start_s, asked.end_s):
        return None
    lacking = asked.resources.lacking_in(booked.least(asked.start_s, asked.end_s))
    name, amount, left = lacking[0]
    words = f"{describe_amount(name, max(0, left))} may be reserved beside what is then"
    return Reason(Rule.NOT_RESERVABLE, describe_amount(name, amount), words, machine)

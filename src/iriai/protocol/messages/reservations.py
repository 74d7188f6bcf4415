"""Messages about reservations, between home, broker and node (docs/spec/017, section 4).

All may be lost, repeated or late. What is said of a reservation carries the version of its terms.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Many, Name, Seconds, Span
from iriai.model.claim import HOLD_S, HoldTime, Phase
from iriai.model.ids import Account, ReservationId
from iriai.model.reason import Reason
from iriai.model.reservation import (
    BOOKINGS_MAX,
    Booking,
    Machines,
    ReservationTerms,
)
from iriai.model.resources import Resources


class SeekNodes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to broker: which machines could take these bookings? Answered with `NodesOffered`."""

    reservation: ReservationId
    version: Count
    terms: ReservationTerms
    without: Machines = ()
    """Machines that refused."""
    kept: Machines = ()
    """Machines that have an earlier version, which does not stand in the way: they come first."""


class NodesOffered(msgspec.Struct, frozen=True, omit_defaults=True):
    """Broker to home, the answer to `SeekNodes`: machines that could, or why there are too few.

    The broker keeps nothing of it: the machines decide.
    """

    reservation: ReservationId
    version: Count
    machines: Machines = ()
    """As many as were asked for, in the order of their names; none: they could not be had."""
    start_wall_s: Seconds = 0.0
    """When the bookings would start: as asked, or the earliest, if that was asked for."""
    reasons: Annotated[tuple[Reason, ...], Many] = ()
    earliest_wall_s: Seconds | None = None
    """Without machines: the earliest start that would do; None: none is known."""


class Book(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to node: keep this booking, up to its phase. Answered with `Booked` or `NotBooked`."""

    booking: Booking
    hold_s: HoldTime = HOLD_S
    """How long the node keeps it while it is held."""
    is_later: bool = False
    """Whether it is a later version of a reservation that stands: it may have begun long ago."""


class Unbook(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to node: free what is kept of a reservation, up to this version.

    Answered with `NotBooked`, also where nothing is kept.
    """

    reservation: ReservationId
    version: Count
    first: Count = 0
    """From which version on: an earlier one stays."""
    is_no_show: bool = False
    """Whether that is because nobody used it, which costs a part of all of it at least."""


class Booked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Node to home: the booking is durable with this phase."""

    reservation: ReservationId
    version: Count
    machine: Name
    phase: Phase
    unable: Reason | None = None
    """Why nothing can run in it: the machine is drained, or its owner has it back; None: it can."""


class NotBooked(msgspec.Struct, frozen=True):
    """Node to home: nothing of this version is kept here."""

    reservation: ReservationId
    version: Count
    machine: Name
    reason: Reason


class BookedTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a broker hears of one booking of a machine, in `Idle`."""

    reservation: ReservationId
    resources: Resources
    starts_in_s: Span
    """From when the message is sent; of an open booking it is over."""
    ends_in_s: Span
    left: Resources | None = None
    """Of an open booking: what of it no task inside uses; None: it is not open."""
    account: Account | None = None
    """Whose it is; None: nobody's."""
    is_beside: bool = False
    """Whether it is what a later version takes beyond the one that counts: never open."""


BookedTimes = Annotated[tuple[BookedTime, ...], msgspec.Meta(max_length=BOOKINGS_MAX)]

ReservationToHome = NodesOffered | Booked | NotBooked
ReservationToNode = Book | Unbook

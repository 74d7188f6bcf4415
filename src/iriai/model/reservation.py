"""Reservations: what is asked for, what a node keeps of it, and how far it is.

Source: paper 004, sections 1 and 3. docs/spec/017 has the words, the states and the rules.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Few, Name, Seconds, Text
from iriai.model.claim import HOLD_S, HoldTime, Phase
from iriai.model.ids import Account, ReservationId
from iriai.model.ranks import SEATS_MAX
from iriai.model.resources import Resources

LENGTH_MIN_S = 60.0
"""Of a reservation. Shorter: less than the grace and slack of a task that has to leave for it."""
LENGTH_MAX_S = 31 * 86_400.0
NODES_MAX = SEATS_MAX
"""Of one reservation: as many as an attempt has seats."""
BOOKINGS_MAX = 1_024
"""That one node keeps."""

NodeCount = Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)]
Names = Annotated[tuple[Name, ...], Few]


class ReservationTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is asked for. Who asks has checked it; a node and a broker check it again."""

    account: Account
    """The account that it belongs to."""
    user: Name
    """The Unix user who asked for it."""
    start_wall_s: Seconds
    end_wall_s: Seconds
    nodes: NodeCount
    resources: Resources | None = None
    """What each node gives; None: all that it has."""
    requirements: Text = ""
    """The ClassAd expression that each node meets; empty: none."""
    users: Names = ()
    """Who may use it beside `user`."""
    group: Name = ""
    """The group of accounts whose users may use it as well; empty: none."""
    is_earliest: bool = False
    """Whether the start is the first from `start_wall_s` on that will do, and the end as much
    later."""
    hold_s: HoldTime = HOLD_S
    """How long nodes hold it while it is not confirmed."""

    def admits(self, user: str, account: Account) -> bool:
        """Return whether a user who submits under an account may use it."""
        is_of_group = bool(self.group) and account.group == self.group
        return user == self.user or user in self.users or is_of_group

    @property
    def length_s(self) -> float:
        """How long it is open."""
        return self.end_wall_s - self.start_wall_s


class Booking(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one node keeps for a reservation: a claim that lies ahead (docs/spec/017, section 3)."""

    reservation: ReservationId
    version: Count
    """Of the terms."""
    account: Account
    start_wall_s: Seconds
    end_wall_s: Seconds
    resources: Resources | None = None
    """None: the whole machine; a node fills in what that is when it grants it."""
    user: Name = ""
    users: Names = ()
    group: Name = ""
    phase: Phase = Phase.HELD
    """`HELD` or `CONFIRMED`."""
    held_until_wall_s: Seconds = 0.0
    """When it ends by itself while it is held; the node sets it."""

    def admits(self, user: str, account: Account) -> bool:
        """Return whether a user who submits under an account may use it."""
        is_of_group = bool(self.group) and account.group == self.group
        return user == self.user or user in self.users or is_of_group


class ReservationState(StrEnum):
    """How far a reservation is at its home (docs/spec/017, section 5)."""

    SEEKING = "seeking"
    """The broker is asked, or nodes are."""
    DECIDING = "deciding"
    """All its nodes hold it, and the home has stored that it is to be."""
    CONFIRMED = "confirmed"
    """Every node has it durably."""
    OPEN = "open"
    OVER = "over"


class ReservationEnd(StrEnum):
    """Why a reservation is over."""

    REFUSED = "refused"
    """It never was: no nodes could be had for it."""
    CANCELLED = "cancelled"
    ENDED = "ended"
    """Its time was over, or its user gave the rest of it back."""
    NO_SHOW = "no-show"
    """No task came into it in time."""


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the home stores of a reservation, whole with each change."""

    number: Count
    version: Count
    terms: ReservationTerms
    state: ReservationState = ReservationState.SEEKING
    nodes: Names = ()
    """The machines that hold it, or are asked to, in the order of their names."""
    asked_wall_s: Seconds = 0.0
    """When it was asked for."""
    end: ReservationEnd | None = None
    """Why it is over; None: it is not."""
    over_wall_s: Seconds = 0.0
    """When that was."""
    unanswered: Names = ()
    """Machines that have not told yet that they have freed it."""

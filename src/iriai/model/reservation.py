"""Reservations: what is asked for, what a node keeps of it, and how far it is.

Source: paper 004, sections 1 and 3. docs/spec/017 has the words, the states and the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from iriai.model.bounds import Count, Few, Name, Seconds, Text, Word
from iriai.model.claim import HOLD_MAX_S, HOLD_S, HoldTime, Phase
from iriai.model.ids import Account, ReservationId, place_of
from iriai.model.problem import Problem, Refused, UsageProblem
from iriai.model.ranks import SEATS_MAX
from iriai.model.reason import Reason
from iriai.model.reservation_news import Notification
from iriai.model.resources import Resources
from iriai.model.units import format_duration

LENGTH_MIN_S = 60.0
"""Of a reservation. Shorter: less than the grace and slack of a task that has to leave for it."""
LENGTH_MAX_S = 31 * 86_400.0
NODES_MAX = SEATS_MAX
"""Of one reservation: as many as an attempt has seats."""
EVICTABLE_MIN_S = 60.0
"""An evictable task is started only where it runs for so long at least, before its grace."""
BOOKINGS_MAX = 1_024
"""That one node keeps."""
HORIZON_S = 14 * 86_400.0
"""How far ahead the start of a reservation may lie."""
HORIZON_MAX_S = 365 * 86_400.0
"""The most that may be set for that."""
AHEAD_MAX_S = HORIZON_MAX_S + 86_400.0
"""A node keeps no booking that starts later than so far ahead: no home has such a horizon, whatever
its clock and the node's say."""
COUNT_MAX = 16
"""Reservations of one account that are not over."""
LOST_S = 1_200.0
"""A node that its reservation's home cannot reach for so long is replaced by another one."""
NO_SHOW_S = 900.0
"""A reservation that no task has used so long after its start is given back."""
NO_SHOW_CHARGE = 0.25
"""The part of a whole booking that is charged at least where its reservation was not used."""
USED_PART = 0.01
"""A task uses a reservation with so much of its cpus, for the time since its start."""
CLOCK_OFFSET_MAX_S = 2.0
"""A machine whose wall clock is known to differ more from the broker's is not offered: whoever
reserved it would come too late, or too early. Clocks that are set by NTP differ by far less."""
SLACK_S = 3_600.0
"""By how much later than planned starts are promised where reservations may take that time."""
RULE_LENGTH_MAX = 256
"""Characters of a rule of repetition."""
REASONS_KEPT_MAX = 8
"""Of an occurrence that could not be had."""
TRIES_MAX = 4
"""Tries to have all nodes hold a reservation, each without the machines that refused before."""

NodeCount = Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)]
Names = Annotated[tuple[Name, ...], Few]
Machines = Annotated[tuple[Name, ...], msgspec.Meta(max_length=NODES_MAX)]
MachinesOfTries = Annotated[tuple[Name, ...], msgspec.Meta(max_length=TRIES_MAX * NODES_MAX)]


Rule5545 = Annotated[str, msgspec.Meta(max_length=RULE_LENGTH_MAX)]
ReasonsKept = Annotated[tuple[Reason, ...], msgspec.Meta(max_length=REASONS_KEPT_MAX)]


class Repetition(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a series is repeated: a rule of RFC 5545, in the local time of a zone."""

    rule: Rule5545
    """As `FREQ=WEEKLY;BYDAY=MO`."""
    zone: Word
    """As `Europe/Berlin`."""
    made: Count = 0
    """How many of its occurrences were made, or could not be: their numbers are used up."""


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
        return _admits(self, user, account)

    @property
    def length_s(self) -> float:
        """How long it is open."""
        return self.end_wall_s - self.start_wall_s


class BookedVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A later version of a booking, which a node keeps beside it until it counts."""

    version: Count
    start_wall_s: Seconds
    end_wall_s: Seconds
    resources: Resources | None = None
    users: Names = ()
    group: Name = ""
    phase: Phase = Phase.HELD
    held_until_wall_s: Seconds = 0.0


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
    later: BookedVersion | None = None
    """What the node keeps beside it; of messages it is ignored."""

    def admits(self, user: str, account: Account) -> bool:
        """Return whether a user who submits under an account may use it."""
        return _admits(self, user, account)


def _admits(kept: ReservationTerms | Booking, user: str, account: Account) -> bool:
    is_of_group = bool(kept.group) and account.group == kept.group
    return user == kept.user or user in kept.users or is_of_group


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
    REPEATING = "repeating"
    """A series: its occurrences are made one after the other."""


class ReservationEnd(StrEnum):
    """Why a reservation is over."""

    REFUSED = "refused"
    """It never was: no nodes could be had for it."""
    CANCELLED = "cancelled"
    ENDED = "ended"
    """Its time was over, or its user gave the rest of it back."""
    NO_SHOW = "no-show"
    """No task came into it in time."""


class NextVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The version of a reservation that is to take the place of the one that stands."""

    version: Count
    terms: ReservationTerms
    state: ReservationState = ReservationState.SEEKING
    """`SEEKING`, `DECIDING`, or `OVER` while machines have not freed what came to nothing."""
    nodes: Machines = ()
    unanswered: MachinesOfTries = ()
    """As of a `Reservation`."""


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the home stores of a reservation, whole with each change."""

    number: Count
    version: Count
    terms: ReservationTerms
    state: ReservationState = ReservationState.SEEKING
    nodes: Machines = ()
    """The machines that hold it, or are asked to, in the order of their names."""
    asked_wall_s: Seconds = 0.0
    """When it was asked for."""
    end: ReservationEnd | None = None
    """Why it is over; None: it is not."""
    over_wall_s: Seconds = 0.0
    """When that was."""
    unanswered: MachinesOfTries = ()
    """Machines that have not told yet that they have freed it; none of `nodes`, unless it is
    over."""
    missing: Machines = ()
    """Those of `nodes` that have nothing of it, cannot run anything in it, or could not be reached
    for long, since it was confirmed: it is degraded."""
    by: Name = ""
    """Who cancelled or ended it; empty: nobody did."""
    is_used: bool = False
    """Whether a task inside has ever used it, as `has_used` has it."""
    repetition: Repetition | None = None
    """Of a series, whose terms are those of its first occurrence; None: it is none."""
    reasons: ReasonsKept = ()
    """Of an occurrence that was refused: why."""
    next: NextVersion | None = None
    """The version for which nodes are sought, or hold it, while this one stands."""
    tried: Count = 0
    """The highest version that nodes were asked for in vain since this one; 0: none."""
    notification: Notification | None = None
    """How its user is told of it, and what is still to be told; None: not at all."""

    @property
    def last_version(self) -> int:
        """Return the highest version that nodes have ever been asked for."""
        return max(self.version, self.tried, 0 if self.next is None else self.next.version)

    @property
    def is_degraded(self) -> bool:
        """Whether it stands, and lacks nodes."""
        stands = self.state in (ReservationState.CONFIRMED, ReservationState.OPEN)
        return stands and bool(self.missing)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it lies ahead any more."""
        return self.state is ReservationState.OVER

    @property
    def is_occurrence(self) -> bool:
        """Whether it is one of a series."""
        return place_of(self.number) > 0


class ReservationLimits(NamedTuple):
    """What a home grants to each account; `[reservations]` of the configuration."""

    horizon_s: float = HORIZON_S
    count_max: int = COUNT_MAX
    no_show_s: float | None = NO_SHOW_S
    """None: what is not used is kept."""
    lost_s: float = LOST_S
    """A node that cannot be reached for so long is replaced."""

    def no_show_wall_s(self, terms: ReservationTerms) -> float | None:
        """Return when it is given back if no task has started; None: never, or it is shorter."""
        if self.no_show_s is None or terms.length_s <= self.no_show_s:
            return None
        return terms.start_wall_s + self.no_show_s


DEFAULT_LIMITS = ReservationLimits()


def has_used(cpu_s: float, cpus: int, since_start_s: float) -> bool:
    """Return whether a task that had so many cpus has used them; a `sleep` has not."""
    return cpu_s >= USED_PART * cpus * since_start_s


def terms_problem(
    terms: ReservationTerms,
    now_wall_s: float,
    horizon_s: float = HORIZON_S,
    *,
    has_begun: bool = False,
) -> Problem | None:
    """Return why nothing can be reserved under these terms at this time; None: it can be.

    `has_begun`: they are of a reservation that is open, and its start stays.
    """
    start_s, end_s, length_s = terms.start_wall_s, terms.end_wall_s, terms.length_s
    if not LENGTH_MIN_S <= length_s <= LENGTH_MAX_S:
        length = "less than nothing" if length_s < 0 else format_duration(length_s)
        bounds = f"{format_duration(LENGTH_MIN_S)} to {format_duration(LENGTH_MAX_S)}"
        what = f"machines cannot be reserved for {length}"
        return UsageProblem("bad-length", what, f"ask for {bounds}")
    if has_begun and end_s <= now_wall_s:
        hint = "give a later end, or give the rest back with iriai reservation end"
        return UsageProblem("in-the-past", "the reservation would be over already", hint)
    is_past = start_s < now_wall_s - HOLD_MAX_S and not (terms.is_earliest or has_begun)
    if end_s <= now_wall_s or is_past:
        ago = format_duration(now_wall_s - start_s)
        hint = "ask for a time that lies ahead, or for one from now on"
        return UsageProblem("in-the-past", f"the reservation would have started {ago} ago", hint)
    if not 1 <= terms.nodes <= NODES_MAX:
        what = f"{terms.nodes} nodes cannot be reserved"
        return UsageProblem("bad-nodes", what, f"ask for 1 to {NODES_MAX:,}")
    if terms.resources is not None and not any(n > 0 for _, n in terms.resources.amounts()):
        hint = "ask for cpus, memory or gpus, or for the whole machines"
        return UsageProblem("nothing-reserved", "each node would give nothing", hint)
    if not 0.0 < terms.hold_s <= HOLD_MAX_S:
        what = f"nodes cannot hold a reservation for {terms.hold_s:g} s"
        return UsageProblem("bad-hold", what, f"ask for at most {HOLD_MAX_S:g} s")
    if start_s > now_wall_s + horizon_s:
        ahead = format_duration(start_s - now_wall_s)
        return Refused(
            "beyond-horizon",
            f"the reservation would start in {ahead}",
            f"reserve at most {format_duration(horizon_s)} ahead",
        )
    return None


def over_text(reservation: ReservationId, end: ReservationEnd | None) -> str:
    """Return, for people, that a reservation is over, and why if that is known."""
    return f"the reservation {reservation} is over" + (f": {end}" if end else "")


def live_reservation(
    reservations: Mapping[int, Reservation], wanted: ReservationId | None
) -> ReservationId | None:
    """Return `wanted` if it is a reservation of the home that is not over; else None."""
    if wanted is None:
        return None
    reservation = reservations.get(wanted.number)
    return None if reservation is None or reservation.is_over else wanted

"""Requests about reservations (docs/spec/017); part of `envelopes`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import (
    Count,
    Expression,
    Few,
    Many,
    Name,
    Real,
    Seconds,
    SizeBytes,
    Text,
    Whole,
    Word,
    Words,
)
from iriai.model.reservation import NODES_MAX
from iriai.model.reservation_news import NewsWanted
from iriai.wire.exchange import ClientAnswer, ClientRequest, Done, Query
from iriai.wire.requests import Why

NodeNames = Annotated[tuple[Name, ...], msgspec.Meta(max_length=NODES_MAX)]


FOLLOWING_MAX = 5
"""Occurrences of a series that are told before they are made."""
Times = Annotated[tuple[Seconds, ...], msgspec.Meta(max_length=FOLLOWING_MAX)]


class ReservationRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reservation as a user may see it."""

    id: Word
    state: Word
    """seeking, deciding, confirmed, open, over, repeating (a series); reserved: another home's,
    seen at its nodes."""
    start_wall_s: Seconds
    end_wall_s: Seconds
    node_count: Count
    """How many nodes were asked for."""
    nodes: NodeNames
    """Those that have it, or are asked to, by name."""
    cause: Word = ""
    """Why it is over: refused, cancelled, ended, no-show."""
    is_usable: bool = False
    """Whether whoever asks may submit into it."""
    is_detailed: bool = False
    """Whether what follows is told: to its user, to those for whom it is, and to operators."""
    account: Name = ""
    user: Name = ""
    users: Annotated[tuple[Name, ...], Few] = ()
    """Who may use it beside its user."""
    group: Name = ""
    """The group whose users may use it as well."""
    resources: Annotated[dict[Name, SizeBytes], Many] | None = None
    """What each node gives; None: the whole machine."""
    requirements: Text = ""
    asked_wall_s: Seconds = 0.0
    over_wall_s: Seconds = 0.0
    """When it was over; 0: it is not."""
    by: Name = ""
    """Who cancelled or ended it; empty: nobody did."""
    missing: NodeNames = ()
    """Those of `nodes` that have lost it, cannot run anything in it, or cannot be reached."""
    is_degraded: bool = False
    """Whether it lacks nodes; told to all."""
    rule: Text = ""
    """Of a series: the rule of RFC 5545 by which it is repeated; empty: it is none."""
    zone: Word = ""
    """Of a series: the zone in whose local time the rule is."""
    following: Times = ()
    """Of a series, where only that is asked for: when its next occurrences begin that are not
    made yet."""
    reasons: Annotated[tuple[Why, ...], Few] = ()
    """Of an occurrence that was refused: why."""


class ReservationTable(ClientAnswer, frozen=True, tag="reservation-table"):
    """Answer to `AskReservations`, by start and id."""

    rows: Annotated[tuple[ReservationRow, ...], Many]
    note: Words = ""
    """What is missing, and why; empty if nothing is."""


class AskReservations(Query[ReservationTable], frozen=True, tag="ask-reservations"):
    """The reservations of the cluster, or one of them."""

    over: bool = False
    """Whether also those of this home that are over, for 30 days."""
    id: Expression = ""
    """Of one, which may be over; empty: all."""


class Reserved(ClientAnswer, frozen=True, tag="reserved"):
    """The reservation is confirmed by all its nodes, durably."""

    id: Word
    start_wall_s: Seconds
    end_wall_s: Seconds
    nodes: NodeNames


class ReservedSeries(ClientAnswer, frozen=True, tag="reserved-series"):
    """The series is stored; each of its occurrences is a reservation."""

    id: Word
    rule: Text
    zone: Word
    start_wall_s: Seconds
    """Of the first occurrence."""
    end_wall_s: Seconds
    first: Word = ""
    """Its id; empty: the horizon has not reached it."""
    nodes: NodeNames = ()
    """Those that have confirmed it; none: it could not be had, or was not sought yet."""
    reasons: Annotated[tuple[Why, ...], Few] = ()
    """Why it could not be had."""


class ReservationPlan(ClientAnswer, frozen=True, tag="reservation-plan"):
    """The terms as they would be asked for, and whether the broker would offer nodes now.

    Nothing is kept, and no node was asked.
    """

    account: Name
    start_wall_s: Seconds
    """With `is_earliest` the first that would do; as asked for if none is known."""
    end_wall_s: Seconds
    node_count: Count
    resources: Annotated[dict[Name, SizeBytes], Many] | None
    """What each node would give; None: the whole machine."""
    users: Annotated[tuple[Name, ...], Few]
    group: Name
    nodes: NodeNames = ()
    """Those that would be asked; none: they could not be had, or it is not known."""
    reasons: Annotated[tuple[Why, ...], Many] = ()
    """Why they could not be had."""
    earliest_wall_s: Seconds | None = None
    """Then: the earliest start that would do; None: none is known."""
    note: Words = ""
    """Why it is not known; empty: it is."""
    rule: Text = ""
    """Of a series, whose first occurrence this is."""
    zone: Word = ""
    following: Times = ()
    """When its next occurrences would begin."""


class Reserve(
    ClientRequest[Reserved | ReservedSeries | ReservationPlan], frozen=True, tag="reserve"
):
    """Reserve machines. Answered once all have confirmed, or none has it.

    A series is answered once that is so of its first occurrence, if the horizon has reached that.
    It goes on if its client leaves.
    """

    fails_alone = True
    is_of_home = True

    start_wall_s: Real
    end_wall_s: Real
    nodes: Whole
    cpus: Whole | None = None
    """Of each node; without this and the next three the whole machine."""
    memory_bytes: Whole | None = None
    gpus: Whole | None = None
    named: Annotated[tuple[tuple[Text, Whole], ...], Few] = ()
    requirements: Text = ""
    use_by: Annotated[tuple[Text, ...], Few] = ()
    """Users, and at most one group, who may use it as well."""
    is_earliest: bool = False
    """Whether the start is the first that will do, and the end as much later."""
    group: Text | None = None
    """As of a `JobDraft`."""
    account: Text | None = None
    dry_run: bool = False
    every: Text = ""
    """The rule by which it is repeated: RFC 5545, or a short form as `daily`; empty: it is not."""
    zone: Text = ""
    """The zone in whose local time the rule is, as `Europe/Berlin`."""
    notify: Text = ""
    """A command to run when something happens to it, or `mailto:ADDRESS`; empty: nothing."""
    notify_on: NewsWanted = NewsWanted.ALL


class ModifyReservation(
    ClientRequest[Reserved | ReservationPlan], frozen=True, tag="modify-reservation"
):
    """Change a reservation of this home that stands. For its user and operators.

    Answered once all nodes have confirmed the change, or it stays as it is. What is None stays.
    """

    fails_alone = True
    is_of_home = True

    id: Expression
    start_wall_s: Real | None = None
    end_wall_s: Real | None = None
    """None, where there is another start: it stays as long as it is."""
    nodes: Whole | None = None
    is_whole: bool = False
    """Whether each node gives the whole machine from then on."""
    cpus: Whole | None = None
    memory_bytes: Whole | None = None
    gpus: Whole | None = None
    named: Annotated[tuple[tuple[Text, Whole], ...], Few] = ()
    """Of each node; others stay."""
    requirements: Text | None = None
    use_by: Annotated[tuple[Text, ...], Few] | None = None
    """Users, and at most one group, who may use it as well."""
    dry_run: bool = False


class EndReservation(ClientRequest[Done], frozen=True, tag="end-reservation"):
    """Give a reservation back, of this home. For its user and operators."""

    fails_alone = True
    is_of_home = True

    id: Expression
    is_open_only: bool = False
    """Whether it is refused for one that is not open."""

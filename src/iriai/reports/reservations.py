"""Reservations as clients are told of them: those of the home, and what nodes keep for others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from iriai.jobs.queries import told_reasons
from iriai.jobs.views import amounts
from iriai.machine.core import Machine
from iriai.model.ids import Account, ReservationId
from iriai.model.instant import Instant
from iriai.model.reservation import Reservation, ReservationState
from iriai.policy.placement.bookings import BookedSpan
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.reservations import SeekNodes
from iriai.wire.inquiries import AskOffer, NodeOffer
from iriai.wire.reservations import ReservationRow, ReservationTable, ReservedSeries

RESERVED = "reserved"
"""The state of a reservation of another home that is not open yet."""


def known_reservations(machine: Machine, now: Instant) -> ReservationTable:
    """Return what the nodes keep, as the broker here knows; without one, nothing.

    It knows when and where, and no more.
    """
    if Part.BROKER not in machine.parts:
        return ReservationTable(())
    spans: dict[ReservationId, dict[str, BookedSpan]] = {}
    for view in machine.broker.state.machines.values():
        for span in view.calendar.bookings:
            if not span.is_beside:
                spans.setdefault(span.reservation, {})[view.name] = span
    rows = (_row_of_nodes(each, nodes, now) for each, nodes in spans.items())
    return _table(rows)


def _row_of_nodes(
    reservation: ReservationId, spans: Mapping[str, BookedSpan], now: Instant
) -> ReservationRow:
    """Return what is known of a reservation from what its nodes keep, by their names."""
    first = next(iter(spans.values()))
    return ReservationRow(
        str(reservation),
        ReservationState.OPEN if any(span.is_open for span in spans.values()) else RESERVED,
        now.wall_s + first.start_s - now.steady_s,
        now.wall_s + first.end_s - now.steady_s,
        len(spans),
        tuple(sorted(spans)),
    )


def offer_now(machine: Machine, asked: AskOffer, now: Instant) -> NodeOffer:
    """Return which machines the broker here would offer for a reservation now."""
    of = asked.reservation or ReservationId(machine.name, 0)
    seek = SeekNodes(of, 1, asked.terms, kept=asked.kept)
    offered = machine.broker.offer(seek, now)
    return NodeOffer(
        offered.machines,
        offered.start_wall_s,
        told_reasons(list(offered.reasons)),
        offered.earliest_wall_s,
    )


def row_of(home: str, reservation: Reservation) -> ReservationRow:
    """Return all that is known of a reservation of this home."""
    terms = reservation.terms
    return ReservationRow(
        str(ReservationId(home, reservation.number)),
        reservation.state,
        terms.start_wall_s,
        terms.end_wall_s,
        terms.nodes,
        reservation.nodes,
        reservation.end or "",
        is_usable=True,
        is_detailed=True,
        account=str(terms.account),
        user=terms.user,
        users=terms.users,
        group=terms.group,
        resources=None if terms.resources is None else amounts(terms.resources),
        requirements=terms.requirements,
        asked_wall_s=reservation.asked_wall_s,
        over_wall_s=reservation.over_wall_s,
        by=reservation.by,
        missing=reservation.missing,
        is_degraded=reservation.is_degraded,
        rule=reservation.repetition.rule if reservation.repetition else "",
        zone=reservation.repetition.zone if reservation.repetition else "",
        reasons=told_reasons(list(reservation.reasons)),
    )


def reserved_series(home: str, series: Reservation, first: Reservation | None) -> ReservedSeries:
    """Return what is told to whoever asked for a series; `first` is None before it is made."""
    repetition, terms = series.repetition, series.terms
    assert repetition is not None, "a series has a rule"
    return ReservedSeries(
        str(ReservationId(home, series.number)),
        repetition.rule,
        repetition.zone,
        terms.start_wall_s,
        terms.end_wall_s,
        "" if first is None else str(ReservationId(home, first.number)),
        () if first is None or first.is_over else first.nodes,
        () if first is None else told_reasons(list(first.reasons)),
    )


def row_for(
    home: str, reservation: Reservation, user: str, groups: Iterable[str], *, is_operator: bool
) -> ReservationRow:
    """Return what a user with accounts in these groups may see of a reservation of this home."""
    row = row_of(home, reservation)
    accounts = (Account(group, user) for group in ("", *groups))
    is_usable = any(reservation.terms.admits(user, account) for account in accounts)
    is_admitted, state = is_usable, reservation.state
    is_usable = is_admitted and state not in (ReservationState.OVER, ReservationState.REPEATING)
    is_known = is_admitted and state is not ReservationState.OVER
    if is_operator or is_known or user == reservation.terms.user:
        return replace(row, is_usable=is_usable)
    times = (row.start_wall_s, row.end_wall_s)
    seen = (row.id, row.state, *times, row.node_count, row.nodes, row.cause)
    return ReservationRow(*seen, is_degraded=row.is_degraded)


def merged(
    own: Iterable[ReservationRow], broker: Iterable[ReservationRow], note: str = ""
) -> ReservationTable:
    """Return the rows of the home, and of the broker those that the home does not know."""
    rows = {row.id: row for row in broker} | {row.id: row for row in own}
    return _table(rows.values(), note)


def _table(rows: Iterable[ReservationRow], note: str = "") -> ReservationTable:
    ordered = sorted(rows, key=lambda row: (row.start_wall_s, row.id))
    return ReservationTable(tuple(ordered), note)

"""`iriai reservations`: all that are not over, with a chart by node."""

from __future__ import annotations

import time

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import (
    Column,
    date_text,
    names_text,
    print_table,
    span_text,
    terminal_columns,
)
from iriai.cli.reservations.chart import chart_lines
from iriai.model.units import printable
from iriai.wire.reservations import AskReservations, ReservationRow

NONE = "There are no reservations."


def _state_text(row: ReservationRow) -> str:
    return row.cause or (f"{row.state}, degraded" if row.is_degraded else row.state)


def _nodes_text(row: ReservationRow) -> str:
    return names_text(map(printable, row.nodes))


COLUMNS: tuple[Column[ReservationRow], ...] = (
    Column("Reservation", lambda row: row.id, style="bold"),
    Column("State", _state_text),
    Column("Start", lambda row: date_text(row.start_wall_s), right=True),
    Column("End", lambda row: date_text(row.end_wall_s), right=True),
    Column("For", lambda row: span_text(row.end_wall_s - row.start_wall_s), right=True, wide=True),
    Column("Yours", lambda row: "yes" if row.is_usable else "no"),
    Column("Account", lambda row: row.account),
    Column("Number", lambda row: str(row.node_count), right=True),
    Column("Nodes", _nodes_text, folds=True),
)


def reservations(
    options: GlobalOptions,
    everything: bool = option(
        False, "--all", help="Also those of this home that have been over for at most 30 days."
    ),
) -> None:
    """List the reservations of the cluster, with a chart of which node is reserved when.

    State: seeking (nodes are asked), deciding (they hold it), confirmed, open (it has begun); of
    other homes reserved or open, and only when and where. Yours says whether you may submit into
    it. A series is repeating; an occurrence that could not be had is refused, and listed until its
    time: 'iriai reservation show' has the reasons.

    In the chart each row is a node, or nodes that are reserved alike; each bar is a reservation.
    """
    table = options.ask(AskReservations(over=everything))
    if options.as_json:
        print_document(table)
        return
    if table.rows:
        print_table(COLUMNS, table.rows)
        lines = chart_lines(table.rows, time.time(), terminal_columns())
        if lines:
            print("\n".join(["", *lines]))
    else:
        remark(NONE)
    if table.note:
        remark(table.note)


app = Command(
    reservations,
    ("iriai reservations", "all that are not over, and a chart of the nodes"),
    ("iriai reservations --all", "also those that are over, and why"),
    ("iriai reservations --json", "for a program"),
)

"""What `iriai top` shows: each panel asks one request, and has rows or lines of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from iriai.cli.accounts import shares
from iriai.cli.framework.table import Column, count_text
from iriai.cli.jobs import jobs
from iriai.cli.machine import nodes
from iriai.cli.queues import gangs, queues
from iriai.client.client import Client
from iriai.wire.machines import AskNodes, AskQueues, NodeRow, NodeTable, QueueRow, QueueTable
from iriai.wire.reports import Gangs, GangTable, ShareRow, Shares, ShareTable
from iriai.wire.requests import JobRow, Jobs

ROWS_MAX = 200
"""Rows of a panel: more than anyone scrolls through."""
BAR_COLUMNS = 8
_IF_WIDE = frozenset(
    (
        *("Ahead", "Broker", "Failed", "Gpus", "Heard", "Link", "Right", "At most", "Cpu time"),
        *("Residence", "Charge", "-p"),
    )
)
"""Columns that a narrow panel leaves out; Enter shows them."""


class TableContent(msgspec.Struct, frozen=True):
    """Rows of a panel, one of which may be chosen."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    name_of: Callable[[Any], str]
    """Returns what identifies a row from one answer to the next."""
    note: str = ""
    """What is missing, or else worth saying."""


class TextContent(msgspec.Struct, frozen=True):
    """Lines of a panel, as it is drawn in so many columns."""

    lines: Callable[[int], list[str]]
    note: str = ""


Content = TableContent | TextContent


class Panel(msgspec.Struct, frozen=True):
    """One part of the view."""

    name: str
    """Its key in the JSON document."""
    title: str
    ask: Callable[[Client, bool], Any]
    """Returns the answer that it shows; the second argument: for all users."""
    content: Callable[[Any], Content]
    is_right: bool = False
    """Whether it stands at the right where there are two columns of panels."""
    are_jobs: bool = False
    """Whether its rows are jobs, named by their ids."""


def bar_text(part: float, mark: float | None = None) -> str:
    """Return a bar of which `part`, a fraction of 1, is full, with a mark at the fraction `mark`.

    What is more than nothing has at least one full place, what is less than all one empty.
    """
    full = round(min(max(part, 0.0), 1.0) * BAR_COLUMNS)
    if 0 < part < 1:
        full = min(max(full, 1), BAR_COLUMNS - 1)
    places = ["█"] * full + ["░"] * (BAR_COLUMNS - full)
    if mark is not None:
        places[min(int(max(mark, 0.0) * BAR_COLUMNS), BAR_COLUMNS - 1)] = "┃"
    return "".join(places)


def _busy_bar(row: NodeRow) -> str:
    if not row.cpus or row.state == "unknown":
        return ""
    return bar_text((row.cpus - row.free_cpus) / row.cpus)


def _got_bar(row: ShareRow) -> str:
    return "" if row.share_got is None else bar_text(row.share_got, row.share_wanted)


_BUSY: Column[NodeRow] = Column("Busy", _busy_bar, style="green")
_GOT: Column[ShareRow] = Column("Of wanted", _got_bar, style="green")


def _first_rows(rows: Sequence[Any], note: str) -> tuple[Sequence[Any], str]:
    """Return so many rows as are shown, and the note on the others beside `note`."""
    left_out = len(rows) - ROWS_MAX
    more = f"and {left_out:,} more" if left_out > 0 else ""
    return rows[:ROWS_MAX], "; ".join(filter(None, (more, note)))


def _machines(table: NodeTable) -> TableContent:
    rows, note = _first_rows(nodes.without_one_cluster(table.rows), table.note)
    columns = _roomy(nodes.columns_of(rows))
    place = 1 + next(at for at, column in enumerate(columns) if column.header == "Cpus")
    columns.insert(place, _BUSY)
    note = note if rows else nodes.NO_MACHINES
    return TableContent(columns, rows, lambda row: f"{row.cluster}/{row.name}", note)


def _queue_name(row: QueueRow) -> str:
    return str(row.number)


def _queues(table: QueueTable) -> TableContent:
    return TableContent(_roomy(queues.COLUMNS), table.rows, _queue_name, table.note)


def _gangs(table: GangTable) -> TextContent:
    return TextContent(lambda width: gangs.table_lines(table, width), table.note)


def _shares(table: ShareTable) -> TableContent:
    notes = [table.note, *shares.order_lines(table)] if table.rows else [shares.NO_ACCOUNTS]
    rows, note = _first_rows(table.rows, " ".join(filter(None, notes)))
    return TableContent(
        [*_roomy(shares.COLUMNS), _GOT], rows, lambda row: f"{row.group}/{row.user}", note
    )


def _roomy(columns: Iterable[Column[Any]]) -> list[Column[Any]]:
    """Return columns of a command's table for a panel, which may be narrower than a terminal."""
    return [each._replace(wide=True) if each.header in _IF_WIDE else each for each in columns]


class JobPage(msgspec.Struct, frozen=True):
    """The first jobs that there are."""

    rows: list[JobRow]
    more: bool
    """Whether there are more."""
    everyone: bool


def _ask_jobs(client: Client, everyone: bool) -> JobPage:
    rows = client.jobs(Jobs(everyone=everyone, limit=ROWS_MAX + 1))
    return JobPage(rows[:ROWS_MAX], len(rows) > ROWS_MAX, everyone)


def _jobs(page: JobPage) -> TableContent:
    note = f"more than {count_text(ROWS_MAX, 'job')}: see iriai jobs" if page.more else ""
    if not page.rows:
        note = jobs.nothing_text(Jobs(everyone=page.everyone))
    return TableContent(_roomy(jobs.COLUMNS), page.rows, lambda row: row.id, note)


PANELS = (
    Panel("machines", "Machines", lambda client, _: client.ask(AskNodes()), _machines),
    Panel("queues", "Queues", lambda client, _: client.ask(AskQueues()), _queues),
    Panel("shares", "Shares", lambda client, _: client.ask(Shares()), _shares),
    Panel("gangs", "Gangs", lambda client, _: client.ask(Gangs()), _gangs),
    Panel("jobs", "Jobs", _ask_jobs, _jobs, is_right=True, are_jobs=True),
)
"""All of them, in their order."""

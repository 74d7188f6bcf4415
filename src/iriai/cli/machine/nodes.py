"""`iriai nodes`: the machines that run tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, print_table
from iriai.model.admission_rules import ALL
from iriai.model.reservable import NAMED_MAX
from iriai.model.resources import amount_words
from iriai.model.units import format_size, printable
from iriai.wire.machines import AskNodes, Forget, NodeRow

NO_MACHINES = "No machine runs tasks yet: start a back end with 'iriai up --parts node'."


def _if_known(cell: Callable[[NodeRow], str]) -> Callable[[NodeRow], str]:
    """Return `cell`, but with nothing for a machine of which only the membership is known."""
    return lambda row: "" if row.state == "unknown" else cell(row)


def _heard_text(row: NodeRow) -> str:
    if row.heard_s is None:
        return "here" if row.link == "here" else ""
    return f"{row.heard_s:.0f} s"


def _memory_text(row: NodeRow) -> str:
    return f"{format_size(row.free_memory_bytes)} of {format_size(row.memory_bytes)}"


def _reservable_text(row: NodeRow) -> str:
    """Return what may be reserved of a machine, and by whom; empty: all of it, by everybody."""
    by = row.reservable_by
    if row.reservable >= 1.0 and by == (ALL,):
        return ""
    if row.reservable <= 0.0 or not by:
        return "no"
    more = len(by) - NAMED_MAX
    names = ", ".join(by[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{100.0 * row.reservable:g} %" + ("" if by == (ALL,) else f" by {names}")


_MACHINE: tuple[Column[NodeRow], ...] = (
    Column("Machine", lambda row: row.name, style="bold"),
    Column("State", lambda row: row.state, by_word=True),
)
_LINK: tuple[Column[NodeRow], ...] = (Column("Link", lambda row: row.link, by_word=True),)
_MEMBER: tuple[Column[NodeRow], ...] = (
    Column("Member", lambda row: row.member, by_word=True),
    Column("Heard", _heard_text, right=True),
    Column("Broker", lambda row: "broker" if row.is_broker else ""),
    Column("Cluster", lambda row: row.cluster, wide=True),
)
_ROOM: tuple[Column[NodeRow], ...] = (
    Column("Cpus", _if_known(lambda row: f"{row.free_cpus} of {row.cpus}"), right=True),
    Column("Memory", _if_known(_memory_text), right=True),
    Column("Gpus", lambda row: f"{row.free_gpus} of {row.gpus}" if row.gpus else "", right=True),
)
_RESERVABLE: tuple[Column[NodeRow], ...] = (Column("Reservable", _reservable_text),)
_REST: tuple[Column[NodeRow], ...] = (
    Column("Load", _if_known(lambda row: f"{row.load:.2f}"), right=True),
    Column("Foreign", _if_known(lambda row: f"{row.foreign_load:.2f}"), right=True, wide=True),
    Column("Speed", _if_known(lambda row: f"{row.speed:g}"), right=True, wide=True),
    Column("Tasks", lambda row: str(row.tasks or ""), right=True),
    Column(
        "Why",
        lambda row: "; ".join(filter(None, (row.reason, *row.differs))),
        folds=True,
        below=True,
    ),
)


def nodes(
    options: GlobalOptions,
    forget: str = option(
        "",
        metavar="NAME",
        help="Remove a back end that will not come back from the list; for operators.",
        autocompletion="complete_node",
    ),
) -> None:
    """List the machines that run tasks: all of the cluster, or a front end's back ends.

    In a cluster, Member is the state of each machine as this machine sees it, and Heard is the time
    since something came from it; the other columns come from the broker. Cpus, memory and GPUs show
    what is free of all there is. Foreign is the part of the load that is not from our tasks. Why
    says what keeps a machine from starting more, and which observations contradict what it reports
    of itself. Reservable, where an owner limits it, is what may be reserved of a machine at once,
    and by whom.

    --forget removes a back end that is offline and will not come back. It is refused while tasks
    that were given to it are not settled. Dead members of a cluster disappear without it.
    """
    if forget:
        options.ask(Forget(forget), follow=False)
        gone = f"{printable(forget)} is forgotten; if it comes back, it is new here."
        options.print_result({"node": forget}, gone)
        return
    table = options.ask(AskNodes(), follow=False)
    rows = table.rows
    if options.as_json:
        print_document(table)
        return
    if not rows:
        remark(NO_MACHINES)
        return
    print_table(columns_of(rows), without_one_cluster(rows))
    if table.note:
        remark(table.note)


def columns_of(rows: Sequence[NodeRow]) -> tuple[Column[NodeRow], ...]:
    """Return the columns of a table of these machines."""
    in_cluster = any(row.member for row in rows)
    names = sorted({name for row in rows for name, _, _ in row.named or ()})
    link = _MEMBER if in_cluster else _LINK
    is_limited = any(map(_reservable_text, rows))
    reservable = _RESERVABLE if is_limited else ()
    return (*_MACHINE, *link, *_ROOM, *map(_named_column, names), *reservable, *_REST)


def without_one_cluster(rows: tuple[NodeRow, ...]) -> tuple[NodeRow, ...]:
    """Return `rows` without the name of the only cluster, which would be a column of one word."""
    if len({row.cluster for row in rows}) == 1:
        return tuple(msgspec.structs.replace(row, cluster="") for row in rows)
    return rows


def _named_column(name: str) -> Column[NodeRow]:
    """Return the column of a named resource."""

    def cell(row: NodeRow) -> str:
        amounts = [(free, there) for each, there, free in row.named or () if each == name]
        return "".join(f"{amount_words(name, f)} of {amount_words(name, t)}" for f, t in amounts)

    return Column(name.capitalize(), cell, right=True)


app = Command(
    nodes,
    ("iriai nodes", "all machines of the cluster, on any of them"),
    ("iriai nodes --json", "for a program: sizes in bytes"),
    ("iriai nodes --forget b2", "a back end that will not come back"),
)

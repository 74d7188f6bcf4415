"""`iriai nodes`: the machines that run tasks."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.completion import complete_node
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, print_table
from iriai.model.resources import amount_words
from iriai.model.units import format_size, printable
from iriai.wire.machines import AskNodes, Forget, NodeRow

_MACHINE = (Column("Machine", style="bold"), Column("State", by_word=True))
_LINK = (Column("Link", by_word=True),)
_MEMBER = (
    Column("Member", by_word=True),
    Column("Heard", right=True),
    Column("Broker"),
    Column("Cluster", wide=True),
)
_ROOM = (Column("Cpus", right=True), Column("Memory", right=True), Column("Gpus", right=True))
_REST = (
    Column("Load", right=True),
    Column("Foreign", right=True, wide=True),
    Column("Speed", right=True, wide=True),
    Column("Tasks", right=True),
    Column("Why", folds=True, below=True),
)


def nodes(
    options: GlobalOptions,
    forget: Annotated[
        str,
        typer.Option(
            "--forget",
            metavar="NAME",
            help="Remove a back end that will not come back from the list; for operators.",
            autocompletion=complete_node,
            show_default=False,
        ),
    ] = "",
) -> None:
    """List the machines that run tasks: all of the cluster, or a front end's back ends.

    In a cluster, Member is the state of each machine as this machine sees it, and Heard is the time
    since something came from it; the other columns come from the broker. Cpus, memory and GPUs show
    what is free of all there is. Foreign is the part of the load that is not from our tasks. Why
    says what keeps a machine from starting more, and which observations contradict what it reports
    of itself.

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
        print(
            "No machine runs tasks yet: start a back end with 'iriai up --parts node'.",
            file=sys.stderr,
        )
        return
    in_cluster = any(row.member for row in rows)
    names = sorted({name for row in rows for name, _, _ in row.named or ()})
    named = (Column(name.capitalize(), right=True) for name in names)
    columns = (*_MACHINE, *(_MEMBER if in_cluster else _LINK), *_ROOM, *named, *_REST)
    if len({row.cluster for row in rows}) == 1:  # no column of one word
        rows = tuple(msgspec.structs.replace(row, cluster="") for row in rows)
    print_table(columns, [_cells(row, names, in_cluster=in_cluster) for row in rows])
    if table.note:
        remark(table.note)


def _cells(row: NodeRow, names: list[str], *, in_cluster: bool) -> tuple[str, ...]:
    how: tuple[str, ...] = (row.link,)
    if in_cluster:
        how = (row.member, _heard(row), "broker" if row.is_broker else "", row.cluster)
    return (row.name, row.state, *how, *_room(row, names))


def _heard(row: NodeRow) -> str:
    if row.heard_s is None:
        return "here" if row.link == "here" else ""
    return f"{row.heard_s:.0f} s"


def _room(row: NodeRow, names: list[str]) -> tuple[str, ...]:
    if row.state == "unknown":
        return (*("",) * (len(_ROOM) + len(names) + len(_REST) - 1), row.reason)
    named = {name: _part(name, *amounts) for name, *amounts in row.named or ()}
    free, there = format_size(row.free_memory_bytes), format_size(row.memory_bytes)
    return (
        f"{row.free_cpus} of {row.cpus}",
        f"{free} of {there}",
        f"{row.free_gpus} of {row.gpus}" if row.gpus else "",
        *(named.get(name, "") for name in names),
        f"{row.load:.2f}",
        f"{row.foreign_load:.2f}",
        f"{row.speed:g}",
        str(row.tasks or ""),
        "; ".join(each for each in (row.reason, *row.differs) if each),
    )


def _part(name: str, there: int, free: int) -> str:
    return f"{amount_words(name, free)} of {amount_words(name, there)}"


app = command_app(
    nodes,
    ("iriai nodes", "all machines of the cluster, on any of them"),
    ("iriai nodes --json", "for a program: sizes in bytes"),
    ("iriai nodes --forget b2", "a back end that will not come back"),
)

"""`iriai nodes`: the machines that run tasks."""

from __future__ import annotations

import sys

from iriai.cli.command import MACHINE, command_app
from iriai.cli.document import print_document
from iriai.cli.global_options import GlobalOptions
from iriai.cli.table import Column, print_table
from iriai.client.answers import NodeRow
from iriai.client.client import Client
from iriai.model.units import format_size

_COLUMNS = (
    Column("Machine", style="bold"),
    Column("State", by_word=True),
    Column("Link", by_word=True),
    Column("Cpus", right=True),
    Column("Memory", right=True),
    Column("Gpus", right=True),
    Column("Load", right=True),
    Column("Foreign", right=True, wide=True),
    Column("Speed", right=True, wide=True),
    Column("Tasks", right=True),
    Column("Why", folds=True),
)


def nodes(options: GlobalOptions) -> None:
    """List the machines that run tasks: of a front end its back ends, of a back end itself.

    Cpus, memory and GPUs are free of all there are. Foreign is the part of the load that is not of
    our tasks; Why says what keeps a machine from starting more, and what was observed there that
    does not go with what it says of itself.
    """
    with Client.connect(options.state, follow=False) as client:
        rows = client.nodes()
    if options.as_json:
        print_document({"rows": rows})
        return
    if not rows:
        print(
            "No machine runs tasks yet: bring up a back end with 'iriai up --parts node'.",
            file=sys.stderr,
        )
        return
    print_table(_COLUMNS, [_cells(row) for row in rows])


def _cells(row: NodeRow) -> tuple[str, ...]:
    free, there = format_size(row.free_memory_bytes), format_size(row.memory_bytes)
    return (
        row.name,
        row.state,
        row.link,
        f"{row.free_cpus} of {row.cpus}",
        f"{free} of {there}",
        f"{row.free_gpus} of {row.gpus}" if row.gpus else "",
        f"{row.load:.2f}",
        f"{row.foreign_load:.2f}",
        f"{row.speed:g}",
        str(row.tasks or ""),
        "; ".join(each for each in (row.reason, *row.differs) if each),
    )


app = command_app(
    nodes,
    panel=MACHINE,
    examples=(
        ("iriai nodes", "all machines of this front end"),
        ("iriai nodes --json", "for a program: sizes in bytes"),
    ),
)

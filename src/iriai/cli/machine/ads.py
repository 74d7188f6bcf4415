"""`iriai ads`: the attributes that machines advertise."""

from __future__ import annotations

from typing import Annotated

import typer

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.completion import complete_node
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, print_table
from iriai.model.units import printable
from iriai.wire.machines import AdRow, AskAds

_COLUMNS = (
    Column("Machine", style="bold"),
    Column("Arch"),
    Column("System"),
    Column("Cpus", right=True),
    Column("Memory", right=True),
    Column("Gpus", right=True),
    Column("Mips", right=True),
    Column("KFlops", right=True, wide=True),
    Column("Load", right=True),
    Column("Idle", right=True, wide=True),
    Column("Requires", folds=True, below=True),
)
_CLUSTER = Column("Cluster")


def ads(
    options: GlobalOptions,
    machine: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="Name of one machine, to show all of it.",
            autocompletion=complete_node,
            show_default=False,
        ),
    ] = "",
    whole: Annotated[
        bool, typer.Option("--long", help="Show every attribute of each machine, one per line.")
    ] = False,
) -> None:
    """List the attributes of machines, which --requirements and --rank may use.

    Names and units are those of HTCondor: Memory in MiB, Disk in KiB, KeyboardIdle in seconds.
    Requires is the condition of the machine's owner on jobs.
    """
    listed = options.ask(AskAds(machine))
    rows = listed.rows
    if options.as_json:
        print_document(listed)
    elif machine or whole:
        print("\n\n".join(_long(row) for row in rows))
    else:
        is_site = any(row.cluster for row in rows)
        columns = (*_COLUMNS[:1], _CLUSTER, *_COLUMNS[1:]) if is_site else _COLUMNS
        print_table(columns, [_cells(row, is_site=is_site) for row in rows])
    if listed.note and not options.as_json:
        remark(listed.note)


def _long(row: AdRow) -> str:
    lines = [f"{name} = {_text(value)}" for name, value in sorted(row.attributes.items())]
    lines += [f"Requirements = {row.requirements}"] if row.requirements else []
    lines += [f"Rank = {row.rank}"] if row.rank else []
    return "\n".join(map(printable, lines))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _cells(row: AdRow, *, is_site: bool) -> tuple[str, ...]:
    def of(name: str) -> str:
        return str(row.attributes.get(name, ""))

    load = row.attributes.get("LoadAvg", 0.0)
    return (
        row.name,
        *((row.cluster,) if is_site else ()),
        of("Arch"),
        of("OpSysAndVer"),
        of("Cpus"),
        of("Memory"),
        of("Gpus") if row.attributes.get("Gpus") else "",
        of("Mips"),
        of("KFlops"),
        f"{load:.2f}" if isinstance(load, float) else "",
        of("KeyboardIdle"),
        row.requirements,
    )


app = command_app(
    ads,
    ("iriai ads", "all machines"),
    ("iriai ads ken", "all attributes of ken"),
    ("iriai ads --json", "for a program"),
)

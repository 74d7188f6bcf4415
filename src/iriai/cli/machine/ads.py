"""`iriai ads`: the attributes that machines advertise."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, print_table
from iriai.model.units import printable
from iriai.wire.machines import AdRow, AskAds


def _attribute(header: str, name: str = "", *, wide: bool = False) -> Column[AdRow]:
    """Return a column with one attribute; its name is the header by default."""
    name = name or header
    return Column(header, lambda row: str(row.attributes.get(name, "")), right=True, wide=wide)


def _load_text(row: AdRow) -> str:
    load = row.attributes.get("LoadAvg", 0.0)
    return f"{load:.2f}" if isinstance(load, float) else ""


_COLUMNS: tuple[Column[AdRow], ...] = (
    Column("Machine", lambda row: row.name, style="bold"),
    Column("Cluster", lambda row: row.cluster),
    _attribute("Arch")._replace(right=False),
    _attribute("System", "OpSysAndVer")._replace(right=False),
    _attribute("Cpus"),
    _attribute("Memory"),
    Column("Gpus", lambda row: str(row.attributes.get("Gpus") or ""), right=True),
    _attribute("Mips"),
    _attribute("KFlops", wide=True),
    Column("Load", _load_text, right=True),
    _attribute("Idle", "KeyboardIdle", wide=True),
    Column("Requires", lambda row: row.requirements, folds=True, below=True),
)


def ads(
    options: GlobalOptions,
    machine: str = argument(
        "",
        metavar="[NAME]",
        help="Name of one machine, to show all of it.",
        autocompletion="complete_node",
    ),
    whole: bool = option(
        False, "--long", help="Show every attribute of each machine, one per line."
    ),
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
        print_table(_COLUMNS, rows)
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


app = Command(
    ads,
    ("iriai ads", "all machines"),
    ("iriai ads ken", "all attributes of ken"),
    ("iriai ads --json", "for a program"),
)

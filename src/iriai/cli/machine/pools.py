"""`iriai pools`: machines that are alike, which run a job on several machines together."""

from __future__ import annotations

import msgspec

from iriai.cli.framework.command import Command, GlobalOptions, argument
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, count_text, print_table
from iriai.cli.machine.nodes import NO_MACHINES
from iriai.model.problem import NotFound
from iriai.model.units import printable
from iriai.wire.machines import AskPools, PoolKind, PoolRow


def _machines_text(row: PoolRow) -> str:
    there = len(row.machines)
    return str(there) if row.available == there else f"{row.available} of {there}"


def _kinds_text(row: PoolRow) -> str:
    """Return what the machines are: of a pool with a name of its own, they may differ."""
    if len(row.kinds) == 1:
        return _kind_text(row.kinds[0])
    texts = [f"{kind.machines} x {_kind_text(kind)}" for kind in row.kinds]
    others = len(row.machines) - sum(kind.machines for kind in row.kinds)
    if others:
        texts.append(f"{count_text(others, 'machine')} of other kinds")
    return "; ".join(texts)


def _kind_text(kind: PoolKind) -> str:
    cpus = count_text(kind.processors, "cpu") if kind.processors else ""
    words = (kind.architecture, kind.system, kind.processor, cpus)
    return ", ".join(filter(None, words)) or "unknown"


_COLUMNS: tuple[Column[PoolRow], ...] = (
    Column("Pool", lambda row: row.name or "(no name)", style="bold"),
    Column("Cluster", lambda row: row.cluster),
    Column("Machines", _machines_text, right=True),
    Column("Cpus", lambda row: f"{row.free_cpus} of {row.cpus}", right=True),
    Column("Load", lambda row: f"{row.load:.2f}", right=True),
    Column("Speed", lambda row: f"{row.speed:g}", right=True),
    Column("Kind", _kinds_text, folds=True, below=True),
)


def pools(
    options: GlobalOptions,
    pool: str = argument(
        "",
        metavar="[NAME]",
        help="Name of one pool, to show its machines.",
        autocompletion="complete_pool",
    ),
) -> None:
    """List the pools: machines that are alike. The ranks of a job are on machines of one pool.

    Machines are of one pool if they have the same architecture, system, processor and number of
    cpus, as Kind shows; such a pool is named by a digest of these. The owner of a machine may give
    its pool another name: pool, in the section machine of iriai.toml.

    Machines shows how many take tasks, of how many there are; Cpus what is free of all there is.
    Load is the sum of their load averages, or of what tasks have claimed if that is more, and Speed
    the sum of cpus times speed. A job that fits into several pools now goes to the one with the
    least load for its speed, and among equals to the fastest.
    """
    table = options.ask(AskPools(), follow=False)
    if pool:
        rows = tuple(row for row in table.rows if row.name == pool)
        if not rows:
            known = ", ".join(dict.fromkeys(printable(row.name) for row in table.rows if row.name))
            raise NotFound(
                "no-such-pool",
                f"there is no pool '{printable(pool)}'",
                f"use one of: {known}" if known else "no machine has said of which pool it is",
            )
        table = msgspec.structs.replace(table, rows=rows)
    if options.as_json:
        print_document(table)
        return
    if not table.rows:
        remark(NO_MACHINES)
        return
    print_table(_COLUMNS, table.rows)
    if pool:
        for row in table.rows:
            print(f"Machines: {', '.join(map(printable, row.machines))}")
    if table.note:
        remark(table.note)


app = Command(
    pools,
    ("iriai pools", "all pools of the cluster"),
    ("iriai pools 3f9c02ab", "one pool, with the names of its machines"),
    ("iriai pools --json", "for a program"),
)

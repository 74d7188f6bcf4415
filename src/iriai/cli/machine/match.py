"""`iriai match`: machines that meet requirements, and why the others do not."""

from __future__ import annotations

from typing import Annotated

import typer

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, count_text, print_table
from iriai.wire.machines import AskMatch, MatchRow, MatchTable

_MACHINES = (
    Column("Machine", style="bold"),
    Column("Matches"),
    Column("Fails", folds=True),
    Column("There", folds=True),
)
_CLUSTER = Column("Cluster")
_CLAUSES = (Column("Machines", right=True), Column("Clause", folds=True))


def match(
    options: GlobalOptions,
    expression: Annotated[
        str,
        typer.Argument(
            metavar="EXPR", help="Expression, as for --requirements of a job.", show_default=False
        ),
    ],
) -> int | None:
    """Show which machines a job of yours with these requirements could run on now.

    For each other machine, the command shows the clauses that fail there: yours, or its owner's.
    For each clause of a longer expression, it shows on how many machines it holds. Patterns
    (regexp) are allowed.
    """
    table = options.ask(AskMatch(expression))
    if options.as_json:
        print_document(table)
        return None
    if len(table.clauses) > 1:
        print_table(_CLAUSES, [(str(each.machines), each.text) for each in table.clauses])
        print()
    is_site = any(row.cluster for row in table.rows)
    columns = (*_MACHINES[:1], _CLUSTER, *_MACHINES[1:]) if is_site else _MACHINES
    print_table(columns, [each for row in table.rows for each in _cells(row, is_site=is_site)])
    print(_summary(table))
    if table.note:
        remark(table.note)
    return None


def _cells(row: MatchRow, *, is_site: bool) -> list[tuple[str, ...]]:
    name = (row.machine, row.cluster) if is_site else (row.machine,)
    if row.matches:
        return [(*name, "yes", "", "")]
    fails = [*row.failing, *((f"owner: {clause}", had) for clause, had in row.owner)]
    cells: list[tuple[str, ...]] = []
    for clause, had in fails or [("", "")]:
        first = (*("",) * len(name), "") if cells else (*name, "no")
        cells.append((*first, clause, had))
    return cells


def _summary(table: MatchTable) -> str:
    matching = sum(row.matches for row in table.rows)
    return f"{matching} of {count_text(len(table.rows), 'machine')} would match."


app = command_app(
    match,
    ("iriai match 'Memory >= 16384'", "machines with 16 GiB"),
    ("iriai match 'Gpus > 0 && LoadAvg < 1'", "and why the others do not match"),
    ("iriai match 'regexp(\"^gpu\", Machine)'", "by a pattern for names"),
)

"""`iriai match`: machines that meet requirements, and why the others do not."""

from __future__ import annotations

from typing import NamedTuple

from iriai.cli.framework.command import Command, GlobalOptions, argument
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, count_text, print_table
from iriai.wire.machines import AskMatch, ClauseRow, MatchRow, MatchTable


class _Line(NamedTuple):
    """A line of the table: a machine, or another clause that fails there."""

    machine: str
    cluster: str
    matches: str
    fails: str
    there: str


_MACHINES: tuple[Column[_Line], ...] = (
    Column("Machine", lambda line: line.machine, style="bold"),
    Column("Cluster", lambda line: line.cluster),
    Column("Matches", lambda line: line.matches),
    Column("Fails", lambda line: line.fails, folds=True),
    Column("There", lambda line: line.there, folds=True),
)
_CLAUSES: tuple[Column[ClauseRow], ...] = (
    Column("Machines", lambda row: str(row.machines), right=True),
    Column("Clause", lambda row: row.text, folds=True),
)


def match(
    options: GlobalOptions,
    expression: str = argument(
        ..., metavar="EXPR", help="Expression, as for --requirements of a job."
    ),
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
        print_table(_CLAUSES, table.clauses)
        print()
    print_table(_MACHINES, [line for row in table.rows for line in _lines(row)])
    print(_summary(table))
    if table.note:
        remark(table.note)
    return None


def _lines(row: MatchRow) -> list[_Line]:
    if row.matches:
        return [_Line(row.machine, row.cluster, "yes", "", "")]
    fails = [*row.failing, *((f"owner: {clause}", had) for clause, had in row.owner)]
    (clause, had), *others = fails or [("", "")]
    first = _Line(row.machine, row.cluster, "no", clause, had)
    return [first, *(_Line("", "", "", *each) for each in others)]


def _summary(table: MatchTable) -> str:
    matching = sum(row.matches for row in table.rows)
    return f"{matching} of {count_text(len(table.rows), 'machine')} would match."


app = Command(
    match,
    ("iriai match 'Memory >= 16384'", "machines with 16 GiB"),
    ("iriai match 'Gpus > 0 && LoadAvg < 1'", "and why the others do not match"),
    ("iriai match 'regexp(\"^gpu\", Machine)'", "by a pattern for names"),
)

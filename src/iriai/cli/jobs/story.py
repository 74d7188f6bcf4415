"""`iriai story`: the history of one job, event by event."""

from __future__ import annotations

from itertools import pairwise

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.framework.table import Column, clock_text, print_table, span_text
from iriai.cli.jobs.options.names import ANY_JOB
from iriai.wire.changes import AskStory, StoryRow

_COLUMNS: tuple[Column[tuple[StoryRow, float]], ...] = (
    Column("When", lambda row: clock_text(row[0].wall_s), right=True),
    Column("After", lambda row: span_text(row[1]) if row[1] > 0 else "", right=True),
    Column("What", lambda row: row[0].what, style="bold", by_word=True),
    Column("Tasks", lambda row: row[0].tasks, shrinks=True),
    Column("Machine", lambda row: row[0].machine, shrinks=True),
    Column("By", lambda row: row[0].by),
    Column("", lambda row: row[0].text, folds=True),
)


def story(
    options: GlobalOptions,
    job: str = ANY_JOB,
) -> None:
    """Show the history of a job or task: who submitted it, what it waited for, each attempt.

    After is the time since the row above. Events of the last second may be missing.
    """
    answer = options.ask(AskStory(job))
    rows = answer.rows
    since_s = (row.wall_s - before.wall_s for before, row in pairwise(rows))
    shown = list(zip(rows, (0.0, *since_s), strict=False))
    options.print_result(answer, lambda: print_table(_COLUMNS, shown))


app = Command(
    story,
    ("iriai story ume-42", "a job, finished or not"),
    ("iriai story ume-42.7", "one task of an array"),
    ("iriai story ume-42 --json", "for a program"),
)

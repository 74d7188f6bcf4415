"""`iriai story`: the history of one job, event by event."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.completion import complete_any_job
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, clock_text, print_table, span_text
from iriai.wire.changes import AskStory, StoryRow

_COLUMNS = (
    Column("When", right=True),
    Column("After", right=True),
    Column("What", style="bold", by_word=True),
    Column("Tasks", shrinks=True),
    Column("Machine", shrinks=True),
    Column("By"),
    Column("", folds=True),
)


def story(
    options: GlobalOptions,
    job: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="A job or a task.",
            autocompletion=complete_any_job,
            show_default=False,
        ),
    ],
) -> None:
    """Show the history of a job or task: who submitted it, what it waited for, each attempt.

    After is the time since the row above. Events of the last second may be missing.
    """
    answer = options.ask(AskStory(job))
    if options.as_json:
        print_document(answer)
        return
    now_wall_s = time.time()
    before_s = [None, *(row.wall_s for row in answer.rows)]
    rows = [
        _cells(row, before, now_wall_s) for row, before in zip(answer.rows, before_s, strict=False)
    ]
    print_table(_COLUMNS, rows)


def _cells(row: StoryRow, before_s: float | None, now_wall_s: float) -> tuple[str, ...]:
    since_s = 0.0 if before_s is None else row.wall_s - before_s
    return (
        clock_text(row.wall_s, now_wall_s),
        span_text(since_s) if since_s > 0 else "",
        row.what,
        row.tasks,
        row.machine,
        row.by,
        row.text,
    )


app = command_app(
    story,
    ("iriai story ume-42", "a job, finished or not"),
    ("iriai story ume-42.7", "one task of an array"),
    ("iriai story ume-42 --json", "for a program"),
)

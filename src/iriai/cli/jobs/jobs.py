"""`iriai jobs`: list waiting, running and finished jobs."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.completion import complete_state
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, clock_text, print_table, span_text
from iriai.model.problem import UsageProblem
from iriai.model.state import TaskState
from iriai.wire.requests import JobRow, Jobs

SHOWN_MAX = 1000
"""Default number of lines in a table: nobody reads more, and Rich is slow with many."""
STATES = tuple(state.value for state in TaskState if state is not TaskState.FINISHED)
"""States of a job that has not finished."""

_COLUMNS = (
    Column("Job", style="bold"),
    Column("Name", shrinks=True),
    Column("Account", shrinks=True),
    Column("State", by_word=True),
    Column("Done", right=True),
    Column("Failed", right=True, style="red"),
    Column("Running", right=True),
    Column("Cpus", right=True),
    Column("-p", right=True),
    Column("Age", right=True),
    Column("Start", right=True),
    Column("Ended", right=True),
)


def jobs(
    options: GlobalOptions,
    everyone: Annotated[
        bool, typer.Option("-a", "--all", help="Jobs of all users; for operators.")
    ] = False,
    user: Annotated[
        str | None,
        typer.Option(metavar="USER", help="Jobs of one user; for operators."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Jobs of this name; 'sweep*' for all that begin so."),
    ] = None,
    in_state: Annotated[
        str | None,
        typer.Option(
            "-s",
            "--in-state",
            metavar="STATE",
            help="Jobs with a task in this state: held, queued, claimed, running or suspended.",
            autocompletion=complete_state,
        ),
    ] = None,
    finished: Annotated[
        bool, typer.Option("-f", "--finished", help="Jobs that have finished, the latest first.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--limit",
            min=0,
            metavar="N",
            help=f"Number of jobs to list; 0 for all. \\[default: {SHOWN_MAX} in a table]",
        ),
    ] = None,
) -> None:
    """List jobs: by default your own that have not finished.

    Start is the latest start that was promised to a job, or, after a ~, the expected one.
    """
    if in_state is not None and in_state not in STATES:
        raise UsageProblem(
            "bad-state", f"'{in_state}' is not a state of a job", f"use one of {', '.join(STATES)}"
        )
    if limit is None:
        limit = 0 if options.as_json else SHOWN_MAX
    request = Jobs(everyone, user, name, in_state, finished, limit + 1 if limit else 0)
    with options.connect() as client:
        rows = client.jobs(request)
    is_more = bool(limit) and len(rows) > limit
    rows = rows[:limit] if limit else rows
    if options.as_json:
        print_document({"rows": rows, "more": is_more})
        return
    if not rows:
        print(_nothing(request), file=sys.stderr)
        return
    now_wall_s = time.time()
    print_table(_COLUMNS, [_cells(row, now_wall_s) for row in rows])
    if is_more:
        print(f"There are more than {limit:,}: use --limit 0 to list all.", file=sys.stderr)


def _cells(row: JobRow, now_wall_s: float) -> tuple[str, ...]:
    is_array = row.tasks > 1
    done = row.succeeded + row.failed
    start = ""
    if row.start_wall_s is not None:
        start = ("" if row.promised else "~") + clock_text(row.start_wall_s, now_wall_s)
    ended = row.ended_wall_s
    return (
        row.id,
        row.name,
        f"{row.group}/{row.user}",
        row.cause or row.state,
        f"{done}/{row.tasks}" if is_array else "",
        str(row.failed) if is_array and row.failed else "",
        str(row.active) if is_array and row.active else "",
        str(row.cpus),
        "" if row.urgency == 1 else f"{row.urgency:g}",
        span_text(now_wall_s - row.submitted_wall_s),
        start,
        "" if ended is None else clock_text(ended, now_wall_s),
    )


def _nothing(request: Jobs) -> str:
    filters = (request.user, request.name, request.state)
    if any(each is not None for each in filters):
        return "No job matches."
    if request.finished:
        return "No job has finished yet."
    whose = "" if request.everyone else " of yours"
    return f"No job{whose} waits or runs. 'iriai jobs --finished' lists those that have finished."


app = command_app(
    jobs,
    ("iriai jobs", "yours that wait or run"),
    ("iriai jobs --all --in-state running", "what everyone runs now (for operators)"),
    ("iriai jobs --finished --limit 20", "how the latest ended"),
    ("iriai jobs --name 'sweep*'", "by name"),
    ("iriai jobs --json | jq -r '.rows[].id'", "ids for a script"),
)

"""`iriai jobs`: list waiting, running and finished jobs."""

from __future__ import annotations

import sys
import time

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, clock_text, print_table, span_text
from iriai.model.problem import UsageProblem
from iriai.model.state import TaskState
from iriai.wire.requests import JobRow, Jobs

SHOWN_MAX = 1000
"""Default number of lines in a table: nobody reads more, and Rich is slow with many."""
STATES = tuple(state.value for state in TaskState if state is not TaskState.FINISHED)
"""States of a job that has not finished."""


def _of_array(row: JobRow, text: str) -> str:
    return text if row.tasks > 1 else ""


def _cpus_text(row: JobRow) -> str:
    return f"{row.ranks} x {row.cpus}" if row.ranks else str(row.cpus)


def _start_text(row: JobRow) -> str:
    start = clock_text(row.start_wall_s)
    return start if row.promised or not start else f"~{start}"


COLUMNS: tuple[Column[JobRow], ...] = (
    Column("Job", lambda row: row.id, style="bold"),
    Column("Name", lambda row: row.name, shrinks=True),
    Column("Account", lambda row: f"{row.group}/{row.user}", shrinks=True),
    Column("State", lambda row: row.cause or row.state, by_word=True),
    Column(
        "Done", lambda row: _of_array(row, f"{row.succeeded + row.failed}/{row.tasks}"), right=True
    ),
    Column("Failed", lambda row: _of_array(row, str(row.failed or "")), right=True, style="red"),
    Column("Running", lambda row: _of_array(row, str(row.active or "")), right=True),
    Column("Cpus", _cpus_text, right=True),
    Column("Queue", lambda row: str(row.queue or ""), right=True),
    Column("-p", lambda row: "" if row.urgency == 1 else f"{row.urgency:g}", right=True),
    Column("Age", lambda row: span_text(time.time() - row.submitted_wall_s), right=True),
    Column("Start", _start_text, right=True),
    Column("Ended", lambda row: clock_text(row.ended_wall_s), right=True),
)


def jobs(
    options: GlobalOptions,
    everyone: bool = option(False, "-a", "--all", help="Jobs of all users; for operators."),
    user: str | None = option(None, metavar="USER", help="Jobs of one user; for operators."),
    name: str | None = option(
        None, metavar="PATTERN", help="Jobs of this name; 'sweep*' for all that begin so."
    ),
    in_state: str | None = option(
        None,
        "-s",
        "--in-state",
        metavar="STATE",
        help="Jobs with a task in this state: held, queued, claimed, running or suspended.",
        autocompletion=lambda: STATES,
    ),
    finished: bool = option(
        False, "-f", "--finished", help="Jobs that have finished, the latest first."
    ),
    limit: int | None = option(
        None,
        "-n",
        "--limit",
        min=0,
        metavar="N",
        help=f"Number of jobs to list; 0 for all. \\[default: {SHOWN_MAX} in a table]",
    ),
) -> None:
    """List jobs: by default your own that have not finished.

    Start is the latest start that was promised to a job, or, after a ~, the expected one. Cpus are
    of each task; 8 x 2 are 8 ranks of 2.
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
        print(nothing_text(request), file=sys.stderr)
        return
    print_table(COLUMNS, rows)
    if is_more:
        print(f"There are more than {limit:,}: use --limit 0 to list all.", file=sys.stderr)


def nothing_text(request: Jobs) -> str:
    """Return what there is to say where no job is listed."""
    filters = (request.user, request.name, request.state)
    if any(each is not None for each in filters):
        return "No job matches."
    if request.finished:
        return "No job has finished yet."
    whose = "" if request.everyone else " of yours"
    return f"No job{whose} waits or runs. 'iriai jobs --finished' lists those that have finished."


app = Command(
    jobs,
    ("iriai jobs", "yours that wait or run"),
    ("iriai jobs --all --in-state running", "what everyone runs now (for operators)"),
    ("iriai jobs --finished --limit 20", "how the latest ended"),
    ("iriai jobs --name 'sweep*'", "by name"),
    ("iriai jobs --json | jq -r '.rows[].id'", "ids for a script"),
)

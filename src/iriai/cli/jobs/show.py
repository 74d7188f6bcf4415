"""`iriai show`: the details of one job or task."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from msgspec.structs import replace

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.completion import complete_any_job
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import (
    Column,
    amounts_text,
    clock_text,
    command_text,
    print_pairs,
    print_table,
    reason_text,
    size_text,
    span_text,
)
from iriai.cli.jobs.options.script import array_text
from iriai.cli.jobs.watching.exit_status import signal_name
from iriai.model.state import EndCause
from iriai.model.units import printable
from iriai.wire.requests import AttemptRow, JobDetail

SHOWN_MAX = 20
"""Attempts in the table, the newest; `--json` has up to a thousand."""

_COLUMNS = (
    Column("Task", style="bold"),
    Column("Try", right=True),
    Column("State", by_word=True),
    Column("Exit", right=True),
    Column("Machine", shrinks=True),
    Column("Started", right=True),
    Column("Took", right=True),
    Column("Cpu", right=True),
    Column("Memory", right=True),
    Column("Read", right=True, wide=True),
    Column("Written", right=True, wide=True),
    Column("Charge", right=True),
)


def show(
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
    """Show all details of a job or task: its request, its state, each attempt."""
    with options.connect() as client:
        detail = client.show(job)
        task = client.why(job) if "." in job else None
    if options.as_json:
        print_document(detail)
        return
    now_wall_s = time.time()
    if task is not None:
        waits = "\n".join(map(reason_text, task.reasons))
        print_pairs([("task", task.id), ("state", task.state), ("waits for", waits)])
        print()
        detail = replace(detail, why=())  # the job's other tasks may wait for something else
    print_pairs(_pairs(detail, now_wall_s))
    if detail.attempts:
        shown = detail.attempts[:SHOWN_MAX]
        print()
        print_table(_COLUMNS, [_cells(each, now_wall_s) for each in shown])
        for each in shown:
            if each.message:
                print(printable(f"{each.task}, attempt {each.attempt}: {each.message}"))
            if each.factors:
                print(f"{each.task}, attempt {each.attempt}: {_factors_text(each)}")
        left_out = len(detail.attempts) - len(shown)
        if left_out:
            print(f"and {left_out} more: iriai show {detail.row.id} --json")


def _factors_text(row: AttemptRow) -> str:
    """Return how an attempt was charged that ran partly off-peak."""
    parts = [f"{span_text(seconds)} at {factor:g}" for factor, seconds in row.factors]
    return f"charged off-peak: {', '.join(parts)}"


def _pairs(detail: JobDetail, now_wall_s: float) -> list[tuple[str, str]]:
    row = detail.row
    restarts = "" if detail.max_restarts is None else str(detail.max_restarts)
    ended = row.ended_wall_s
    return [
        ("job", row.id),
        ("name", row.name),
        ("state", _state(detail, now_wall_s)),
        ("waits for", "\n".join(map(reason_text, detail.why))),
        ("account", detail.account),
        ("command", _command(detail)),
        ("directory", detail.working_directory),
        ("tasks", _tasks(detail)),
        ("ended", ", ".join(f"{n} {cause}" for cause, n in detail.causes.items())),
        ("cancelled", detail.note),
        ("after", " ".join(detail.after)),
        ("needs", _needs(detail)),
        ("requires", detail.requirements),
        ("preferred machines", detail.rank),
        ("time limit", "" if detail.time_limit_s is None else span_text(detail.time_limit_s)),
        ("restarts", restarts and f"at most {restarts}"),
        ("urgency", "" if row.urgency == 1 else f"{row.urgency:g}"),
        ("output", detail.output),
        ("errors", detail.error),
        ("submitted", clock_text(row.submitted_wall_s, now_wall_s)),
        ("finished", "" if ended is None else clock_text(ended, now_wall_s)),
    ]


def _tasks(detail: JobDetail) -> str:
    if not detail.array:
        return ""
    at_once = "" if detail.throttle is None else f", at most {detail.throttle} at once"
    return f"{detail.row.tasks} ({array_text(detail.array)}){at_once}"


def _needs(detail: JobDetail) -> str:
    needs = amounts_text(detail.resources)
    return f"{needs}, a whole machine" if detail.exclusive else needs


def _command(detail: JobDetail) -> str:
    command = command_text(detail.command)
    if not detail.script:
        return command
    return f"a script, with arguments {command}" if command else "a script"


def _state(detail: JobDetail, now_wall_s: float) -> str:
    row = detail.row
    state = row.cause if row.cause and row.tasks == 1 else row.state
    if row.start_wall_s is None:
        return state
    sort = "promised to start by" if row.promised else "expected start"
    return f"{state}, {sort} {clock_text(row.start_wall_s, now_wall_s)}"


def _cells(row: AttemptRow, now_wall_s: float) -> tuple[str, ...]:
    is_over = row.ended_wall_s is not None or bool(row.cause)
    started = row.started_wall_s
    took_s = row.elapsed_s
    if not is_over:
        took_s = 0.0 if started is None else now_wall_s - started
    ended = "" if row.exit_code is None else str(row.exit_code)
    if row.cause == EndCause.FAILED and row.signal is not None:
        ended = signal_name(row.signal)
    return (
        row.task,
        str(row.attempt),
        row.cause or row.state,
        ended,
        row.machine,
        "" if started is None else clock_text(started, now_wall_s),
        span_text(took_s) if started is not None else "",
        span_text(row.cpu_s) if row.cpu_s or is_over else "",
        size_text(row.memory_peak_bytes),
        size_text(row.read_bytes),
        size_text(row.written_bytes),
        span_text(row.charge_s) if is_over else "",
    )


app = command_app(
    show,
    ("iriai show ume-42", "a job and its attempts"),
    ("iriai show ume-42.7", "one task of an array"),
    ("iriai show ume-42 --json", "everything, for a program"),
)

"""`iriai show`: the details of one job or task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TextIO

from msgspec.structs import replace

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import (
    Column,
    amounts_text,
    clock_text,
    command_text,
    print_pairs,
    print_table,
    size_text,
    span_text,
)
from iriai.cli.jobs.options.names import ANY_JOB
from iriai.cli.jobs.watching.exit_status import signal_name
from iriai.model.state import EndCause
from iriai.model.submission import Binding, Layout
from iriai.model.units import printable
from iriai.wire.requests import AttemptRow, JobDetail, Parallel, Why

SEATS_SHOWN_MAX = 64
"""Machines in the table of ranks."""
SHOWN_MAX = 20
"""Attempts in the table, the newest; `--json` has up to a thousand."""


def _is_over(row: AttemptRow) -> bool:
    return row.ended_wall_s is not None or bool(row.cause)


def _exit_text(row: AttemptRow) -> str:
    if row.cause == EndCause.FAILED and row.signal is not None:
        return signal_name(row.signal)
    return "" if row.exit_code is None else str(row.exit_code)


def _took_text(row: AttemptRow) -> str:
    if row.started_wall_s is None:
        return ""
    return span_text(row.elapsed_s if _is_over(row) else time.time() - row.started_wall_s)


def _machine_text(row: AttemptRow) -> str:
    return f"{row.machine} and {row.seats - 1} more" if row.seats > 1 else row.machine


def _ranks_text(row: AttemptRow) -> str:
    if not row.ranks:
        return f"{row.rank}-"
    return str(row.rank) if row.ranks == 1 else f"{row.rank}-{row.rank + row.ranks - 1}"


_COLUMNS: tuple[Column[AttemptRow], ...] = (
    Column("Task", lambda row: row.task, style="bold"),
    Column("Try", lambda row: str(row.attempt), right=True),
    Column("State", lambda row: row.cause or row.state, by_word=True),
    Column("Exit", _exit_text, right=True),
    Column("Machine", _machine_text, shrinks=True),
    Column("Started", lambda row: clock_text(row.started_wall_s), right=True),
    Column("Took", _took_text, right=True),
    Column(
        "Cpu", lambda row: span_text(row.cpu_s) if row.cpu_s or _is_over(row) else "", right=True
    ),
    Column("Memory", lambda row: size_text(row.memory_peak_bytes), right=True),
    Column("Read", lambda row: size_text(row.read_bytes), right=True, wide=True),
    Column("Written", lambda row: size_text(row.written_bytes), right=True, wide=True),
    Column("Charge", lambda row: span_text(row.charge_s) if _is_over(row) else "", right=True),
    Column("Back", lambda row: span_text(row.returned_s) if row.returned_s else "", right=True),
)
_SEAT_COLUMNS = (*_COLUMNS[:2], Column("Ranks", _ranks_text, right=True), *_COLUMNS[2:])


def show(
    options: GlobalOptions,
    job: str = ANY_JOB,
    ranks: bool = option(
        False, "--ranks", help="Also list which ranks each machine has, and how they run."
    ),
) -> None:
    """Show all details of a job or task: its request, its state, each attempt.

    With --ranks each line is of one machine. It is asked for its ranks, then they are held, then
    confirmed by all machines, then started; what they used is known at their end.
    """
    with options.connect() as client:
        detail = client.show(job, ranks=ranks)
        task = client.why(job) if "." in job else None
    if options.as_json:
        print_document(detail)
        return
    if task is not None:
        waits = _reasons_text(task.reasons)
        print_pairs([("task", task.id), ("state", task.state), ("waits for", waits)])
        print()
        detail = replace(detail, why=())  # the job's other tasks may wait for something else
    print_detail(detail)
    if detail.seats:
        _print_seats(detail)


def print_detail(detail: JobDetail, out: TextIO | None = None) -> None:
    """Print a job and its newest attempts, to standard output or `out`."""
    print_pairs(_pairs(detail), out)
    if not detail.attempts:
        return
    shown = detail.attempts[:SHOWN_MAX]
    print(file=out)
    print_table(_COLUMNS, shown, out)
    for each in shown:
        if each.message:
            print(printable(f"{each.task}, attempt {each.attempt}: {each.message}"), file=out)
        if each.factors:
            print(f"{each.task}, attempt {each.attempt}: {_factors_text(each)}", file=out)
    left_out = len(detail.attempts) - len(shown)
    if left_out:
        print(f"and {left_out} more: iriai show {detail.row.id} --json", file=out)


def _print_seats(detail: JobDetail) -> None:
    shown = detail.seats[:SEATS_SHOWN_MAX]
    print()
    print_table(_SEAT_COLUMNS, shown)
    for each in shown:
        if each.message and detail.row.ranks:
            print(printable(f"ranks {_ranks_text(each)}, attempt {each.attempt}: {each.message}"))
    left_out = len(detail.seats) - len(shown)
    if left_out:
        print(f"and {left_out} more machines: iriai show {detail.row.id} --ranks --json")


def _factors_text(row: AttemptRow) -> str:
    """Return how an attempt was charged that ran partly off-peak."""
    parts = [f"{span_text(seconds)} at {factor:g}" for factor, seconds in row.factors]
    return f"charged off-peak: {', '.join(parts)}"


def _pairs(detail: JobDetail) -> list[tuple[str, str]]:
    row = detail.row
    restarts = "" if detail.max_restarts is None else str(detail.max_restarts)
    return [
        ("job", row.id),
        ("name", row.name),
        ("state", _state(detail)),
        ("waits for", _reasons_text(detail.why)),
        ("account", detail.account),
        ("command", _command(detail)),
        ("directory", detail.working_directory),
        ("tasks", _tasks(detail)),
        ("ended", ", ".join(f"{n} {cause}" for cause, n in detail.causes.items())),
        ("cancelled", detail.note),
        ("comment", detail.comment),
        ("after", " ".join(detail.after)),
        ("ranks", _ranks(detail.parallel)),
        ("needs", _needs(detail)),
        ("requires", detail.requirements),
        ("preferred machines", detail.rank),
        ("time limit", "" if detail.time_limit_s is None else span_text(detail.time_limit_s)),
        ("cpu time", "" if detail.cpu_limit_s is None else span_text(detail.cpu_limit_s)),
        ("restarts", restarts and f"at most {restarts}"),
        ("for owners", _owners_text(detail)),
        ("reservation", _reservation_text(detail)),
        ("queue", str(row.queue or "")),
        ("urgency", "" if row.urgency == 1 else f"{row.urgency:g}"),
        ("output", detail.output),
        ("errors", detail.error),
        ("submitted", clock_text(row.submitted_wall_s)),
        ("finished", clock_text(row.ended_wall_s)),
    ]


def _reservation_text(detail: JobDetail) -> str:
    """Return in which reservation the job runs, and whether it may start ahead of others."""
    parts = [detail.reservation] if detail.reservation else []
    if detail.or_queue:
        parts.append("what waits at its end waits on")
    if detail.evictable is not None:
        parts.append(
            "its tasks may start before one and leave for it"
            if detail.evictable
            else "no task starts before one that begins before its end"
        )
    return "; ".join(parts)


def _owners_text(detail: JobDetail) -> str:
    """Return what the job wants of owners of machines."""
    code = detail.checkpoint_exit
    return "; ".join(
        [
            *(["it is not suspended but ended"] if detail.no_suspend else []),
            *([f"it saves itself: exit code {code}"] if code is not None else []),
        ]
    )


def _reasons_text(reasons: Sequence[Why]) -> str:
    if not reasons:
        return ""
    from iriai.cli.framework.reasons import reasons_text

    return reasons_text(reasons)


def _tasks(detail: JobDetail) -> str:
    if not detail.array:
        return ""
    from iriai.cli.jobs.options.script import array_text

    at_once = "" if detail.throttle is None else f", at most {detail.throttle} at once"
    return f"{detail.row.tasks} ({array_text(detail.array)}){at_once}"


def _needs(detail: JobDetail) -> str:
    needs = amounts_text(detail.resources)
    if detail.row.ranks:
        return f"{needs} for each rank{', whole machines' if detail.exclusive else ''}"
    return f"{needs}, a whole machine" if detail.exclusive else needs


def _ranks(parallel: Parallel | None) -> str:
    if parallel is None:
        return ""
    from iriai.model.ranks import shape_of

    shape = shape_of(parallel.ranks, parallel.nodes, parallel.per_node)
    parts = [
        str(shape),
        "of several pools if need be" if parallel.across_pools else "",
        "the command runs on the first machine" if parallel.layout is Layout.FIRST else "",
        "others go on if one fails" if parallel.keep_going else "",
        _BOUND[parallel.bind] if parallel.bind else "",
    ]
    return "; ".join(filter(None, parts))


_BOUND = {
    Binding.CORES: "each on processors of its own",
    Binding.NONE: "on all processors of their machine that the job has",
}


def _command(detail: JobDetail) -> str:
    if detail.parallel is not None and detail.parallel.pipes:
        return " | ".join(map(command_text, detail.parallel.pipes))
    command = command_text(detail.command)
    if not detail.script:
        return command
    return f"a script, with arguments {command}" if command else "a script"


def _state(detail: JobDetail) -> str:
    row = detail.row
    state = row.cause if row.cause and row.tasks == 1 else row.state
    if row.start_wall_s is None:
        return state
    sort = "promised to start by" if row.promised else "expected start"
    return f"{state}, {sort} {clock_text(row.start_wall_s)}"


app = Command(
    show,
    ("iriai show ume-42", "a job and its attempts"),
    ("iriai show ume-42.7", "one task of an array"),
    ("iriai show ume-42 --ranks", "which ranks are on which machine"),
    ("iriai show ume-42 --json", "everything, for a program"),
)

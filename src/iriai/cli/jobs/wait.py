"""`iriai wait`: wait until jobs have finished."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.jobs.watching.exit_status import exit_code_of_all, outcome_text
from iriai.client.connection import OnProgress
from iriai.model.units import printable
from iriai.wire.requests import Progress


def wait(
    options: GlobalOptions,
    jobs: list[str] = argument(
        ...,
        metavar="ID...",
        help="Jobs (ume-42) and tasks (ume-42.7).",
        autocompletion="complete_job",
    ),
    quiet: bool = option(False, "-q", "--quiet", help="Print nothing; only set the exit code."),
) -> int:
    """Wait until jobs and tasks have finished, and print how they ended.

    The exit code is the task's own; 128 + N after signal N, 124 after its time limit, 125 after
    another limit or when it was lost, 130 when it was cancelled. With several tasks it is that of
    the first that failed.
    """
    with options.connect() as client:
        wants_bar = sys.stderr.isatty() and not quiet and not options.as_json
        if wants_bar:
            with progress_bar() as on_progress:
                outcomes = client.wait(jobs, on_progress, _remark_offline)
        else:
            outcomes = client.wait(jobs, on_lost=None if quiet else _remark_offline)
    if options.as_json:
        print_document({"outcomes": outcomes})
    elif not quiet:
        for outcome in outcomes:
            print(printable(outcome_text(outcome)))
    return exit_code_of_all(outcomes)


@contextmanager
def progress_bar() -> Iterator[OnProgress]:
    """Show a bar on standard error, moved by what it yields, and removed at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("waiting", total=None)

        def on_progress(progress: Progress) -> None:
            done = progress.succeeded + progress.failed
            total = done + progress.waiting + progress.active
            words = f"{progress.waiting} waiting, {progress.active} active"
            if progress.failed:
                words += f", [red]{progress.failed} failed[/]"
            bars.update(bar, description=words, completed=done, total=total)

        yield on_progress


def _remark_offline() -> None:
    remark("the daemon is offline; waiting for it, tasks go on")


app = Command(
    wait,
    ("iriai wait ume-42", "a job; its exit code is the command's"),
    ("iriai wait ume-42 ume-43.7 && ./collect", "several; continue when all have succeeded"),
    ("iriai wait --quiet $(iriai submit -- ./step1)", "submit and wait"),
)

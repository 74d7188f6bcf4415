"""`iriai top`: a live view of machines, queues, shares and jobs."""

from __future__ import annotations

import os

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import error_document, remark
from iriai.cli.framework.table import WIDE_COLUMNS, print_table, terminal_columns
from iriai.cli.top.panels import PANELS, TableContent
from iriai.cli.top.source import Overview, Source
from iriai.cli.top.watcher import INTERVAL_MAX_S, INTERVAL_MIN_S
from iriai.model.problem import ExitCode, UsageProblem


def top(
    options: GlobalOptions,
    everyone: bool = option(False, "-a", "--all", help="Jobs of all users; for operators."),
    interval: float = option(
        2.0,
        "-i",
        "--interval",
        metavar="SECONDS",
        help=f"Time from one look at the daemon to the next, from {INTERVAL_MIN_S:g}.",
    ),
    once: bool = option(False, "--once", help="Print what there is now as text, and end."),
) -> int:
    """Watch machines, queues, shares and jobs, and look into jobs, hold and cancel them.

    The keys are shown with '?'. While the daemon is away the view says so, and goes on when it is
    back. --once, and --json, print what there is now; they need no terminal.
    """
    if not INTERVAL_MIN_S <= interval <= INTERVAL_MAX_S:
        raise UsageProblem(
            "bad-interval",
            f"an interval of {interval:g} s is too short or too long",
            f"use {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds",
        )
    source = Source(options.connect, PANELS, everyone=everyone)
    if once or options.as_json:
        overview = source.overview()
        source.close()
        options.print_result(document_of(overview), lambda: print_overview(overview))
        return _code_of(overview)
    from iriai.system.extras import need_extra

    need_extra("top", "iriai top")
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageProblem(
            "not-a-terminal", "there is no terminal to draw on", "use iriai top --once, or --json"
        )
    source.overview()  # where no daemon answers, this is said before the screen is taken
    from iriai.cli.top.view import TopView

    view = TopView(source, PANELS, interval)
    view.run()
    if view.failure is not None:
        raise view.failure
    return view.return_code or ExitCode.DONE


def document_of(overview: Overview) -> dict[str, object]:
    """Return an overview as a document: each answer, or error, under the name of its panel."""
    document: dict[str, object] = {"taken_wall_s": overview.taken_wall_s, "status": overview.status}
    for section in overview.sections:
        document[section.panel.name] = (
            section.answer
            if section.problem is None
            else {"error": error_document(section.problem)}
        )
    return document


def print_overview(overview: Overview) -> None:
    """Print an overview as text."""
    for place, section in enumerate(overview.sections):
        print(f"{chr(10) if place else ''}{section.panel.title}")
        content = section.content
        if content is None:
            remark(str(section.problem))
            continue
        if not isinstance(content, TableContent):
            print("\n".join(content.lines(max(terminal_columns(), WIDE_COLUMNS))))
        elif content.rows:
            print_table(content.columns, content.rows)
        if content.note:
            print(content.note)


def _code_of(overview: Overview) -> int:
    """Return the exit code of the first panel that was refused."""
    codes = (each.problem.exit_code for each in overview.sections if each.problem)
    return next(codes, ExitCode.DONE)


app = Command(
    top,
    ("iriai top", "machines, queues, shares, your jobs"),
    ("iriai top --all --interval 5", "with everyone's jobs, every five seconds"),
    ("iriai top --once", "one look, as text"),
    ("iriai top --json | jq '.jobs.rows | length'", "one look, for a program"),
)

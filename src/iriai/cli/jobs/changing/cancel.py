"""`iriai cancel`: withdraw waiting tasks, end running ones."""

from __future__ import annotations

import sys

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.table import count_text
from iriai.cli.jobs.changing.bulk_change import print_changed
from iriai.client.client import Client
from iriai.model.problem import Refused, UsageProblem
from iriai.wire.changes import Changed
from iriai.wire.requests import Jobs


def cancel(
    options: GlobalOptions,
    names: list[str] | None = argument(
        None,
        metavar="ID...",
        help="Jobs (ume-42), tasks (ume-42.7), ranges (ume-42.1-10), names (name:sweep*).",
        autocompletion="complete_job",
    ),
    mine: bool = option(False, "--mine", help="All of your jobs."),
    everyone: bool = option(False, "--all", help="The jobs of all users; for operators."),
    yes: bool = option(False, "--yes", help="With --all: do not ask for confirmation."),
) -> int:
    """Cancel jobs and tasks.

    Waiting tasks are withdrawn. Running tasks get SIGTERM, and are killed a little later.
    """
    if bool(names) + mine + everyone != 1:
        raise UsageProblem(
            "nothing-named",
            "use one of: ids, --mine or --all",
            "as in iriai cancel ume-42",
        )
    with options.connect() as client:
        if names:
            return print_changed(client.cancel(names), "cancelled", as_json=options.as_json)
        _cancel_all(client, everyone=everyone, ask=not yes, as_json=options.as_json)
    return 0


def _cancel_all(client: Client, *, everyone: bool, ask: bool, as_json: bool) -> None:
    rows = client.jobs(Jobs(everyone=everyone))
    if rows and everyone and ask and sys.stdin.isatty():
        users = len({row.user for row in rows})
        question = f"Cancel {count_text(len(rows), 'job')} of {count_text(users, 'user')}?"
        import typer

        typer.confirm(question, abort=True, err=True)
    changed = Changed({})
    if rows:
        try:
            changed = client.cancel([row.id for row in rows])
        except Refused:  # the only one has finished meanwhile, which is as well
            rows = []
    # For the same reason problems with some of many are none.
    print_changed(Changed(changed.tasks), "cancelled", as_json=as_json)
    if not rows and not as_json:
        print("There is nothing to cancel.")


app = Command(
    cancel,
    ("iriai cancel ume-42 ume-43", "jobs"),
    ("iriai cancel ume-42.7 ume-42.10-19", "tasks of an array"),
    ("iriai cancel 'name:sweep*'", "your jobs with such names"),
    ("iriai cancel --mine", "all your jobs"),
)

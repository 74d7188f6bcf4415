"""`iriai down`: end the daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from iriai.cli.command import MACHINE, command_app
from iriai.cli.document import print_document
from iriai.cli.global_options import GlobalOptions
from iriai.client.client import Client
from iriai.model.problem import Unreachable


def down(
    options: GlobalOptions,
    kill: Annotated[
        bool, typer.Option("--kill", help="Also end every task, and the launcher.")
    ] = False,
) -> None:
    """End the daemon and its supervisor; running tasks go on, and 'iriai up' takes them up again.

    What waits keeps waiting, durably.
    """
    with _connect(options, kill=kill) as client:
        welcome = client.welcome
        client.down(kill=kill)
    if options.as_json:
        print_document({"home": welcome.home, "daemon_pid": welcome.daemon_pid, "killed": kill})
    elif kill:
        print(f"{welcome.home} is down, and its tasks were ended.")
    else:
        print(f"{welcome.home} is down; running tasks go on.")


def _connect(options: GlobalOptions, *, kill: bool) -> Client:
    try:
        return Client.connect(options.state)
    except Unreachable as problem:
        if problem.code != "no-daemon":
            raise
        hint = "tasks of an earlier one end after 'iriai up --detach' and then this" if kill else ""
        raise Unreachable(problem.code, problem.message, hint) from None


app = command_app(
    down,
    panel=MACHINE,
    examples=(
        ("iriai down && iriai up --detach", "restart it, after an upgrade say"),
        ("iriai down --kill", "end everything"),
    ),
)

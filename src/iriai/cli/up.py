"""`iriai up`: bring up the daemon of this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from iriai.cli.command import MACHINE, command_app
from iriai.cli.document import print_document
from iriai.cli.global_options import GlobalOptions
from iriai.model.paths import state_directory


def up(
    options: GlobalOptions,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it answers, and leave it running.")
    ] = False,
    user: Annotated[
        str | None,
        typer.Option(metavar="USER", help="For root: whom the daemon runs as. \\[default: iriai]"),
    ] = None,
) -> None:
    """Bring up the daemon of this machine, with its launcher; safe to repeat.

    As an ordinary user it works for you alone; as root for every user of the machine, each task as
    its own user. Without --detach this command stays, and restarts either if it fails.
    """
    from iriai.daemon.standing import Standing
    from iriai.daemon.up import bring_up, stay_up

    def announce(standing: Standing) -> None:
        if options.as_json:
            print_document(standing._asdict())
            return
        news = "is up" if standing.started else "was up already"
        print(f"{standing.home} {news}, with its state in {standing.state_directory}", flush=True)

    option = None if options.state is None else str(options.state)
    directory = state_directory(option, os.environ, os.geteuid())
    announce(bring_up(directory, user) if detach else stay_up(directory, user, announce))


app = command_app(
    up,
    panel=MACHINE,
    examples=(
        ("iriai up --detach", "start it, and go on"),
        ("iriai up --state /tmp/try", "one to try things with, in the foreground"),
    ),
)

"""`iriai down`: end the daemon."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.client.connection import candidate_directories
from iriai.model.problem import Unreachable


def down(
    options: GlobalOptions,
    kill: Annotated[
        bool, typer.Option("--kill", help="Also end every task, and the launcher.")
    ] = False,
) -> None:
    """Stop the daemon and its supervisor; running tasks go on until 'iriai up' adopts them.

    Waiting jobs keep waiting, durably. 'down --kill' also ends what an earlier 'down' left running.
    """
    try:
        client = options.connect(follow=False)
    except Unreachable as problem:
        if problem.code != "no-daemon" or not kill or not _end_leftover(options):
            raise
        return
    with client:
        welcome = client.welcome
        client.down(kill=kill)
    tasks = ", and its tasks were ended" if kill else "; running tasks go on"
    options.print_result(
        {"home": welcome.home, "daemon_pid": welcome.daemon_pid, "killed": kill},
        f"{welcome.home} is down{tasks}.",
    )


def _end_leftover(options: GlobalOptions) -> bool:
    """End the launcher that an earlier `down` left with its tasks; return whether there was one."""
    from iriai.supervisor.orphaned_launcher import end_launcher

    named = None if options.state is None else str(options.state)
    for directory in candidate_directories(named, os.environ, os.geteuid()):
        pid = end_launcher(directory)
        if pid is not None:
            options.print_result(
                {"home": None, "launcher_pid": pid, "killed": True},
                f"The launcher that an earlier 'iriai down' left in {directory} has ended.",
            )
            return True
    return False


app = command_app(
    down,
    ("iriai down && iriai up --detach", "restart it, as after an upgrade"),
    ("iriai down --kill", "end everything"),
)

"""`iriai down`: end the daemon."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.machine.without_daemon import AWAY_CODES
from iriai.model.problem import Unreachable


def down(
    options: GlobalOptions,
    kill: bool = option(False, "--kill", help="Also end every task, and the launcher."),
) -> None:
    """Stop the daemon and its supervisor; running tasks go on until 'iriai up' adopts them.

    Waiting jobs keep waiting, durably. 'down --kill' also ends what an earlier 'down' left running.
    It works without a daemon too: then it ends the supervisor, which would start one again.
    """
    directories = options.local_directories()
    try:
        with options.connect(follow=False) as client:
            welcome = client.welcome
            directories = tuple(each for each in directories if each == welcome.state_directory)
            client.down(kill=kill)
    except Unreachable as problem:
        is_away = problem.code in AWAY_CODES or (kill and problem.code == "daemon-silent")
        if not is_away or not _end_directly(options, directories, kill=kill):
            raise
        return
    tasks = ", and its tasks were ended" if kill else "; running tasks go on"
    options.print_result(
        {"home": welcome.home, "daemon_pid": welcome.daemon_pid, "killed": kill},
        f"{welcome.home} is down{tasks}.",
    )


def _end_directly(options: GlobalOptions, directories: tuple[str, ...], *, kill: bool) -> bool:
    """End the processes of the first directory that has any; return whether there were any."""
    from iriai.supervisor.down import end_processes

    for directory in directories:
        ended = end_processes(directory, kill=kill)
        if ended is not None:
            pids = zip(("supervisor", "daemon", "launcher"), ended, strict=True)
            parts = ", ".join(f"{part} (process {pid})" for part, pid in pids if pid is not None)
            tasks = "every task was ended" if kill else "running tasks go on"
            options.print_result(
                {"home": None, **ended._asdict(), "killed": kill},
                f"No daemon answered in {directory}. Ended: {parts}; {tasks}.",
            )
            return True
    return False


app = Command(
    down,
    ("iriai down && iriai up --detach", "restart it, as after an upgrade"),
    ("iriai down --kill", "end everything"),
)

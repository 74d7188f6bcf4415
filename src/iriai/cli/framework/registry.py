"""The commands by name. The module of a command is loaded when the command is called or listed."""

from __future__ import annotations

from importlib import import_module

from iriai import __version__
from iriai.cli.framework.command import MACHINE, Command, CommandGroup, GlobalOptions, option

FOLDERS = {
    "machine": (
        MACHINE,
        (
            "up down status nodes pools ads match owner session-agent drain resume doctor config "
            "backup restore"
        ),
    ),
    "queues": (MACHINE, "queues gangs"),
    "settings": (MACHINE, "queue pool gang console"),
    "top": (MACHINE, "top"),
    "cluster": (MACHINE, "cluster token join leave eject operator trust consent"),
    "jobs": (
        "Jobs",
        "run submit exec remote-shell jobs show why story logs wait",
    ),
    "jobs.changing": ("Jobs", "cancel hold release suspend unsuspend alter"),
    "reservations": ("Jobs", "reserve reservations reservation"),
    "accounts": ("Accounts", "shares usage"),
    "simulate": ("Simulation", "simulate policy"),
}
"""The commands of each folder, and their heading on the help page."""
COMMANDS = {
    name: f"iriai.cli.{folder}.{name.replace('-', '_')}"
    for folder, (_, names) in FOLDERS.items()
    for name in names.split()
}
"""The module of each command, which has an `app`; in the order of the help page."""


def load(name: str) -> Command | CommandGroup:
    """Return the command, or group of commands, `name`, which is in `COMMANDS`."""
    app: Command | CommandGroup = import_module(COMMANDS[name]).app
    return app


def show_version() -> int:
    """Print the version."""
    print(f"iriai {__version__}")
    return 0


def _root(
    options: GlobalOptions,
    version: bool = option(False, "--version", help="Print the version."),
) -> None:
    """Declare what stands before the name of a command."""


ROOT = Command(
    _root,
    ("iriai up --detach", "start the daemon"),
    ("iriai run -- hostname", "run a command, show its output, exit with its code"),
    ("iriai submit --array 1-20 -- ./analyse.sh", "submit twenty tasks"),
    ("iriai jobs", "your jobs that wait or run"),
    ("iriai why ume-2", "why job ume-2 waits"),
    ("iriai run --help", "help of a command, with examples"),
)
"""What stands before the name of a command."""

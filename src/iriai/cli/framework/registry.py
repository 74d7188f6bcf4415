"""The commands by name. The module of a command is loaded when the command is called or listed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from iriai import __version__
from iriai.cli.framework.command import MACHINE, GlobalOptions, examples_text, flattened
from iriai.cli.framework.standard_streams import complain, reader_gone
from iriai.model.problem import ExitCode, Problem, UsageProblem

DEBUG_VARIABLE = "IRIAI_DEBUG"
"""Environment variable that shows the traceback of an internal error."""


def run_arguments(words: Sequence[str]) -> int:
    """Run the command in `words`; return the exit code."""
    try:
        result = root_command().main(args=list(words), prog_name="iriai", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_gone()
    except typer.TyperException as error:
        complain(_usage_problem(error), as_json=_asks_for_json(words))
        return ExitCode.USAGE
    except typer.Abort:  # a question was not answered
        complain(Problem("interrupted", "interrupted: nothing was changed"), as_json=False)
        return 130
    except Exception as error:  # any error is reported in one line
        if os.environ.get(DEBUG_VARIABLE):
            raise
        complain(_internal(error), as_json=_asks_for_json(words))
        return ExitCode.INTERNAL
    return int(result or 0)


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether `--json` is among the options of a line that could not be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _usage_problem(error: typer.TyperException) -> UsageProblem:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "iriai")
    message, _, guess = error.format_message().rstrip(".").partition(". Did you mean ")
    hint = f"see '{command} --help'"
    if guess:
        hint = f"did you mean {guess} {hint}"
    return UsageProblem("usage", message[:1].lower() + message[1:], hint)


def _internal(error: Exception) -> Problem:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return Problem("system", f"{where}{error.strerror or error}")
    return Problem(
        "internal",
        f"internal error of iriai ({type(error).__name__}: {error})",
        f"please report it, with the output of {DEBUG_VARIABLE}=1",
    )


_FOLDERS = {
    "machine": (
        MACHINE,
        "up down status nodes ads match drain resume doctor config backup restore",
    ),
    "cluster": (MACHINE, "cluster token join leave eject operator trust consent"),
    "jobs": ("Jobs", "run submit jobs show why story logs wait cancel hold release alter"),
    "accounts": ("Accounts", "shares usage"),
    "simulate": ("Simulation", "simulate"),
}
"""The commands of each folder, and their heading on the help page."""
COMMANDS = {
    name: f"iriai.cli.{folder}.{name}"
    for folder, (_, names) in _FOLDERS.items()
    for name in names.split()
}
"""The module of each command, which has an `app`; in the order of the help page."""

_HELP = """\
Share the computers of a laboratory fairly.

Submit work with [bold]run[/] or [bold]submit[/]; iriai draws whose turn it is, by what each \
account has used, and runs it on this machine.
"""
_EXAMPLES = (
    ("iriai up --detach", "start the daemon"),
    ("iriai run -- hostname", "run a command, show its output, exit with its code"),
    ("iriai submit --array 1-20 -- ./analyse.sh", "submit twenty tasks"),
    ("iriai jobs", "your jobs that wait or run"),
    ("iriai why ume-2", "why job ume-2 waits"),
    ("iriai run --help", "help of a command, with examples"),
)


class LazyGroup(TyperGroup):
    """The commands of `COMMANDS`, each loaded on first use."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return all names, in the order of the help page."""
        return list(COMMANDS)

    def get_command(  # type: ignore[override]
        self, ctx: typer.Context, cmd_name: str
    ) -> TyperCommand | TyperGroup | None:
        """Return the command `cmd_name`, or None."""
        if cmd_name not in COMMANDS:
            return None
        made = get_command(import_module(COMMANDS[cmd_name]).app)
        command = cast("TyperCommand | TyperGroup", made)
        command.name = cmd_name
        command.rich_help_panel = _FOLDERS[COMMANDS[cmd_name].split(".")[2]][0]
        return command


def root_command() -> TyperGroup:
    """Return the command `iriai`, with all others below it."""
    app = typer.Typer(
        cls=LazyGroup, rich_markup_mode="rich", epilog=examples_text(_EXAMPLES), help=_HELP
    )
    app.callback(invoke_without_command=True)(flattened(_root))
    command = cast("TyperGroup", get_command(app))
    # Their names alone are used, for suggestions after a typing error.
    command.commands = dict.fromkeys(COMMANDS, TyperCommand(None))
    return command


def _root(
    ctx: typer.Context,
    options: GlobalOptions,
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> int:
    ctx.obj = options
    if version:
        print(f"iriai {__version__}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        ctx.get_help()
    return 0

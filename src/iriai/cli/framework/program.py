"""One command line, from its words to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from iriai.cli.framework.command import (
    WORDS,
    Command,
    CommandGroup,
    GlobalOptions,
    Invocation,
    has_dashes,
)
from iriai.cli.framework.registry import COMMANDS, ROOT, load, show_version
from iriai.cli.framework.standard_streams import complain, reader_gone
from iriai.cli.framework.words import read_words
from iriai.model.problem import ExitCode, Problem

DEBUG_VARIABLE = "IRIAI_DEBUG"
"""Environment variable that shows the traceback of an internal error."""
_COMPLETING = "_IRIAI_COMPLETE"
"""Environment variable with which a shell asks for completions."""


def run_arguments(words: Sequence[str]) -> int:
    """Run the command in `words`; return the exit code."""
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_gone()
    except Exception as error:  # noqa: BLE001  # any error is reported in one line
        return _report(error, as_json=_asks_for_json(words))
    return code


def _run(words: Sequence[str]) -> int:
    """Run an ordinary command line by what its command declares, any other by Typer."""
    if _COMPLETING not in os.environ:
        if [*words] == ["--version"]:
            return show_version()
        if call := read_call(words):
            return call.command.call(call.values, call.outer, call.invocation) or 0
    from iriai.cli.framework.typer_group import run_by_typer

    return run_by_typer(words)


class CommandCall(msgspec.Struct, frozen=True):
    """A command with all that it is called with; see `Command.call`."""

    command: Command
    values: dict[str, Any]
    outer: GlobalOptions
    invocation: Invocation


def read_call(words: Sequence[str]) -> CommandCall | None:
    """Return the call that `words` are; None if Typer has to read them, see `read_words`."""
    read = read_words(words, ROOT.declared, stops=True, is_group=True)
    if read is None or read.values.pop("version") or not read.rest:
        return None
    outer = GlobalOptions(**read.values)
    name, *given = read.rest
    if name not in COMMANDS:
        return None
    command = load(name)
    if isinstance(command, CommandGroup):
        if not given or given[0] not in command.commands:
            return None
        command = command.commands[given.pop(0)]
    read = read_words(given, command.declared, stops=command.takes_command)
    if read is None:
        return None

    def context() -> Any:  # noqa: ANN401 - Typer's
        from iriai.cli.framework.typer_group import context_of

        return context_of(outer, name, given)

    dashes = has_dashes(given, read.values.get(WORDS))
    return CommandCall(command, read.values, outer, Invocation(given, dashes, {}, context))


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether `--json` is among the options of a line that could not be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _report(error: Exception, *, as_json: bool) -> int:
    """Report an error that is no `Problem`; return its exit code."""
    from iriai.cli.framework.typer_group import exit_code_of

    code = exit_code_of(error, as_json=as_json)
    if code is not None:
        return code
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    complain(_internal(error), as_json=as_json)
    return ExitCode.INTERNAL


def _internal(error: Exception) -> Problem:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return Problem("system", f"{where}{error.strerror or error}")
    return Problem(
        "internal",
        f"internal error of iriai ({type(error).__name__}: {error})",
        f"please report it, with the output of {DEBUG_VARIABLE}=1",
    )

"""From the words of a command line to an exit code, without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from iriai.cli.framework.errors import complain
from iriai.cli.framework.registry import root_command
from iriai.cli.framework.standard_streams import reader_gone
from iriai.model.problem import ExitCode, Problem, UsageProblem

DEBUG_VARIABLE = "IRIAI_DEBUG"
"""Set by those who look for a mistake of ours: show where it happened."""


def run_words(words: Sequence[str]) -> int:
    """Run the command that `words` are; returns the exit code."""
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
    except Exception as error:  # whatever it was, people get one line
        if os.environ.get(DEBUG_VARIABLE):
            raise
        complain(_internal(error), as_json=_asks_for_json(words))
        return ExitCode.INTERNAL
    return int(result or 0)


def _asks_for_json(words: Sequence[str]) -> bool:
    """Whether `--json` stands among the options, where the words could not be understood."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _usage_problem(error: typer.TyperException) -> UsageProblem:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "iriai")
    message, _, guess = error.format_message().rstrip(".").partition(". Did you mean ")
    hint = f"'{command} --help' shows what can be said"
    if guess:
        hint = f"did you mean {guess} {hint}"
    return UsageProblem("usage", message[:1].lower() + message[1:], hint)


def _internal(error: Exception) -> Problem:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return Problem("system", f"{where}{error.strerror or error}")
    return Problem(
        "internal",
        f"a mistake of iriai itself ({type(error).__name__}: {error})",
        f"please report it, with what {DEBUG_VARIABLE}=1 shows",
    )

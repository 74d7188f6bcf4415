"""One command line, from its words to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from iriai.cli.framework.command import (
    WORDS,
    Command,
    CommandGroup,
    Declared,
    GlobalOptions,
    Invocation,
    has_dashes,
)
from iriai.cli.framework.registry import COMMANDS, ROOT, load, show_version
from iriai.cli.framework.standard_streams import complain, reader_gone
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


# --- words of ordinary lines ---------------------------------------------------------------------


class Read(msgspec.Struct, frozen=True):
    """What words mean."""

    values: dict[str, Any]
    """The value of each option and argument, by its parameter."""
    rest: list[str]
    """The words that are no options."""


def read_words(
    words: Sequence[str], declared: Iterable[Declared], *, stops: bool, is_group: bool = False
) -> Read | None:
    """Return what `words` mean to a command that declares `declared`.

    None if they are not all right, or not ordinary: then Typer reads them, which knows all there
    is, and what to say. Where both read the words they agree. With `stops`, everything after the
    first word that is no option belongs to that word; with `is_group` it is for another command.
    """
    options = _by_name(declared)
    values: dict[str, Any] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--" or (stops and not _is_option(word)):
            rest += left if word == "--" else (word, *left)
            break
        if not _is_option(word):
            rest.append(word)
            continue
        name, equals, value = word.partition("=")
        found = options.get(name)
        if found is None or (equals and not name.startswith("--")):
            return None
        each, is_on = found
        if each.is_switch:
            if equals:
                return None
            values[each.name] = is_on
        elif not _add(values, each, value if equals else next(left, None)):
            return None
    if not is_group and not _place(values, rest, declared):
        return None
    for each in declared:
        if each.name not in values:
            if each.parameter.default is ...:
                return None
            values[each.name] = each.parameter.default
    return Read(values, rest)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _by_name(declared: Iterable[Declared]) -> dict[str, tuple[Declared, bool]]:
    """Return each option by its names, and whether a switch of this name is on."""
    found = {}
    for each in declared:
        if not each.parameter.is_argument:
            for names in each.names:
                on, _, off = names.partition("/")
                found[on] = each, True
                if off:
                    found[off] = each, False
    return found


def _place(values: dict[str, Any], rest: list[str], declared: Iterable[Declared]) -> bool:
    """Add the arguments that `rest` are; return whether they are all right."""
    left = iter(rest)
    for each in declared:
        if each.parameter.is_argument:
            for word in left:
                if not _add(values, each, word):
                    return False
                if not each.kind.startswith("list["):
                    break
    return next(left, None) is None


def _add(values: dict[str, Any], each: Declared, text: str | None) -> bool:
    """Add the value that `text` is; return whether it is all right."""
    kind = each.kind.removesuffix(" | None")
    is_list = kind.startswith("list[")
    read = _READERS.get(kind[len("list[") : -1] if is_list else kind)
    if read is None or text is None:
        return False
    try:
        value = read(text)
    except ValueError:
        return False
    settings = each.parameter.settings
    if not settings.get("min", value) <= value <= settings.get("max", value):
        return False
    if is_list:
        values.setdefault(each.name, []).append(value)
    else:
        values[each.name] = value
    return True


def _path(text: str) -> object:
    from pathlib import Path

    return Path(text)


_READERS: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float, "Path": _path}
"""What makes a value of a word, by its type as it is written; a word of any other is Typer's."""

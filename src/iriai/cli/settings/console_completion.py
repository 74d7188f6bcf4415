"""Completion of the console's lines, by the readline of the standard library."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from iriai.cli.framework.command import GlobalOptions
from iriai.config.console_lines import SECTIONS_OF
from iriai.config.live_settings import setting_words
from iriai.model.problem import Problem
from iriai.wire.machines import AskPools, AskQueues

Names = Callable[[str], Iterable[str]]
"""Returns the queues or pools that there are, by the section."""


def complete_lines(options: GlobalOptions, commands: Sequence[str]) -> None:
    """Let the Tab key complete what is typed from now on, and the arrows bring back lines."""
    try:
        import readline
    except ImportError:  # a Python without it
        return
    known: dict[str, list[str]] = {}

    def names(section: str) -> list[str]:
        if section not in known:
            known[section] = list(_names(options, section))
        return known[section]

    def complete(text: str, number: int) -> str | None:
        before = readline.get_line_buffer()[: readline.get_begidx()]
        found = candidates(before, commands, names)
        fitting = [each for each in found if each.startswith(text)]
        return fitting[number] if number < len(fitting) else None

    readline.set_completer_delims(" \t")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")


def candidates(before: str, commands: Sequence[str], names: Names) -> list[str]:
    """Return what may stand after `before`, the words of a line so far."""
    try:
        words = shlex.split(before)
    except ValueError:
        return []
    match words:
        case [] | ["help"]:
            return [f"{each} " for each in commands]
        case ["queue" | "pool" | "gang"]:
            return ["set ", "unset "]
        case ["queue" | "pool" as command, "set" | "unset"]:
            return [f"{each} " for each in names(SECTIONS_OF[command])]
        case ["gang", "set", *_]:
            return _settings("gang")
        case ["queue" | "pool" as command, "set", _, *_]:
            return _settings(SECTIONS_OF[command])
    return []


def _settings(section: str) -> list[str]:
    return [word if word.endswith("=") else f"{word} " for word in setting_words(section)]


def _names(options: GlobalOptions, section: str) -> Iterable[str]:
    """Ask the daemon; without an answer there is nothing to complete."""
    with suppress(Problem, OSError):
        if section == "queues":
            return [str(row.number) for row in options.ask(AskQueues(), follow=False).rows]
        return [row.name for row in options.ask(AskPools(), follow=False).rows if row.name]
    return []

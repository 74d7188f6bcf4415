"""The help of every command there is, as one process with nothing of its surroundings prints it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

import typer
from typer.core import TyperCommand, TyperGroup

from iriai.cli.framework.program import run_arguments
from iriai.cli.framework.typer_group import root_command
from tests.golden.cli.golden_file import FOLDER

PAGES = FOLDER / "help"
PRINT_WAIT_S = 120.0
ENVIRONMENT = {
    "COLUMNS": "100",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "NO_COLOR": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONUTF8": "1",
    "TERM": "dumb",
}
"""All of it: a colour, a width or a home directory of whoever runs the tests shows in no page."""


def command_names() -> list[tuple[str, ...]]:
    """The words of every command and of every group of them, `()` for `iriai` itself."""
    return list(_below(root_command(), ()))


def _below(command: TyperCommand | TyperGroup, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert isinstance(inner, TyperCommand | TyperGroup), name
            yield from _below(inner, (*words, name))


def page_name(words: tuple[str, ...]) -> str:
    """The name of the file of a command's page."""
    return "-".join(("iriai", *words))


def pages() -> dict[str, str]:
    """The page of each command, by the name of its file."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        cwd=FOLDER.parent.parent.parent,
        env=ENVIRONMENT,
        capture_output=True,
        encoding="utf-8",
        timeout=PRINT_WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _printed(words: tuple[str, ...]) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        code = run_arguments((*words, "--help"))
    assert code == 0, words
    return "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").split("\n")) + "\n"


if __name__ == "__main__":
    json.dump({page_name(words): _printed(words) for words in command_names()}, sys.stdout)

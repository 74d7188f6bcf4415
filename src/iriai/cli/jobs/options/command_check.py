"""Whether a command can be found before it waits for hours and then fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from iriai.model.problem import Refused

ANYWAY = "or say --no-check if it will be there by the time it runs"


def check_directory(directory: str) -> None:
    """Raise `Refused` unless `directory` is there."""
    path = Path(directory)
    if path.is_dir():
        return
    what = "is not a directory" if path.exists() else "does not exist"
    raise Refused(
        "no-directory",
        f"the working directory {directory} {what}",
        f"make it, name another with --chdir, {ANYWAY}",
    )


def check_command(word: str, environment: Mapping[str, str], directory: str) -> None:
    """Raise `Refused` unless a task could execute `word` in `directory`."""
    if not word:
        raise Refused("no-such-command", "the command is empty", "say what to run after --")
    if "/" in word:
        _check_file(word, Path(directory, word))
        return
    search = environment.get("PATH", os.defpath)
    if shutil.which(word, path=search) is not None:
        return
    hint = "check its spelling and your PATH"
    if Path(directory, word).is_file():
        hint = f"to run the file here, write ./{word}"
    raise Refused("no-such-command", f"there is no command '{word}'", f"{hint}, {ANYWAY}")


def _check_file(word: str, path: Path) -> None:
    if path.is_dir():
        raise Refused("no-such-command", f"{word} is a directory", "name a program in it")
    if not path.exists():
        raise Refused("no-such-command", f"{word} does not exist", f"check its spelling, {ANYWAY}")
    if not os.access(path, os.X_OK):
        raise Refused(
            "not-executable",
            f"{word} may not be executed",
            f"do 'chmod +x {word}', or have its text sent: iriai submit {word}",
        )

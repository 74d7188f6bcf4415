"""A script that is handed in, with what its directives asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iriai.model.problem import UsageProblem

if TYPE_CHECKING:  # loaded only for a script that has directives
    from iriai.client.directives.option import OptionValue
    from iriai.model.batch_variables import BatchVariables


import os
import shutil
import stat
import sys
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


SENT_BYTES_MAX = 64 << 20
"""More is not even read: a daemon refuses less already."""
_LOOK_BYTES = 4096
"""Enough to tell text from a program."""


def is_script(path: Path) -> bool:
    """Whether `path` is a file whose text is meant: it begins with #!, or is no program.

    Raises:
        Refused: it is a file and cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return False
        with path.open("rb") as file:
            start = file.read(_LOOK_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from None
    return start.startswith(b"#!") or (b"\0" not in start and not os.access(path, os.X_OK))


def read_script(path: Path) -> bytes:
    """The text of a script; raises `Refused` where it cannot be run."""
    return _checked(read_sent(path), str(path))


def read_script_from_stdin() -> bytes:
    """As `read_script`, from standard input."""
    return _checked(sys.stdin.buffer.read(SENT_BYTES_MAX + 1), "standard input")


def read_sent(path: Path) -> bytes:
    """The content of a file that is sent along; raises `Refused` where it cannot be."""
    try:
        with path.open("rb") as file:
            content = file.read(SENT_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > SENT_BYTES_MAX:
        raise Refused(
            "too-long",
            f"{path} is larger than {SENT_BYTES_MAX >> 20} MiB",
            "leave it where it is, and have the job read it there",
        )
    return content


def _checked(content: bytes, name: str) -> bytes:
    if not content.strip():
        raise Refused("empty-script", f"the script {name} is empty", "write some commands into it")
    if content.startswith(b"#!") and content.split(b"\n", 1)[0].endswith(b"\r"):
        raise Refused(
            "dos-script",
            f"the lines of the script {name} end as on Windows, which no interpreter understands",
            f"convert it: sed -i 's/\\r$//' {name}",
        )
    return content


def _unreadable(path: Path, error: OSError) -> Refused:
    return Refused(
        "unreadable",
        f"{path} cannot be read ({os.strerror(error.errno or 0)})",
        "see to its permissions, or name another file",
    )


SCRIPT = "iriai.script"
"""In the context's `meta`: the script whose directives were read."""
_ANY = re.compile(rb"^#(?:IRIAI|SBATCH|PBS)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script to be run."""

    path: str
    """As it was named; `-` is standard input."""
    name: str
    content: bytes
    batch: BatchVariables | None = None
    """What a script for another system finds of its submission."""
    settings: tuple[OptionValue, ...] = ()
    """The options that its directives are."""
    directives_are_read: bool = False
    mail_place: str = ""
    """Where it asks for mail in the words of another system."""

    @property
    def has_directives(self) -> bool:
        """Whether there may be some that were not read."""
        return not self.directives_are_read and _ANY.search(self.content) is not None

    @contextmanager
    def naming_lines(self) -> Iterator[None]:
        """A problem with an option that came from a directive names its line."""
        try:
            yield
        except UsageProblem as problem:
            for each in self.settings:
                if problem.message.startswith(f"{each.option}:"):
                    text = f"{each.place}: {problem.message}"
                    raise UsageProblem(problem.code, text, problem.hint) from None
            raise

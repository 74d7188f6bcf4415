"""A submitted script, with the options of its directives."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from iriai.model.problem import Refused, UsageProblem

if TYPE_CHECKING:  # loaded only for a script that has directives
    from iriai.client.directives.option import OptionValue
    from iriai.model.batch_variables import BatchVariables

StrPath = str | os.PathLike[str]
Ranges = tuple[tuple[int, int, int], ...]
"""Ranges as (first, last, step), last included."""

THROTTLE_MAX = 999_999_999
"""The largest throttle: no array has more tasks."""
_RANGE = r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?"


def parse_throttled(text: str) -> tuple[Ranges, int | None]:
    """Return the ranges of `text`, and the throttle N if it ends in `%N`.

    Raises:
        UsageProblem: it is not a list of ranges, or N is no number of tasks.
    """
    ranges, percent, throttle = text.partition("%")
    if not percent:
        return parse_array(ranges), None
    if not throttle.isdecimal() or not 1 <= int(throttle) <= THROTTLE_MAX:
        raise UsageProblem(
            "bad-throttle",
            f"'{text}': '{throttle}' is not a number of tasks",
            "give a number from 1 after %, as in --array 1-1000%50",
        )
    return parse_array(ranges), int(throttle)


def parse_array(text: str) -> Ranges:
    """Return the ranges of `text`, in ascending order of their first index.

    Raises:
        UsageProblem: it is not a list of ranges.
    """
    ranges: list[tuple[int, int, int]] = []
    for part in text.replace(" ", "").split(","):
        match = re.fullmatch(_RANGE, part)
        if match is None:
            raise _bad(text, f"'{part}' is not a range of indices")
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first or step < 1:
            raise _bad(text, f"the range '{part}' is empty")
        ranges.append((first, last, step))
    return tuple(sorted(ranges))


def array_text(ranges: Ranges) -> str:
    """Return `ranges` as `parse_array` reads them."""
    return ",".join(_range_text(*each) for each in ranges)


def _range_text(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"


def _bad(text: str, why: str) -> UsageProblem:
    where = "" if f"'{text}'" in why else f" in '{text}'"
    return UsageProblem("bad-array", f"{why}{where}", "write --array 1-100 or --array 1-10,20-30:2")


ANYWAY = "or use --no-check if it will exist when the job starts"


def check_directory(directory: str) -> None:
    """Raise `Refused` unless `directory` exists."""
    if os.path.isdir(directory):
        return
    what = "is not a directory" if os.path.exists(directory) else "does not exist"
    raise Refused(
        "no-directory",
        f"the working directory {directory} {what}",
        f"create it, name another with --chdir, {ANYWAY}",
    )


def check_command(word: str, environment: Mapping[str, str], directory: str) -> None:
    """Raise `Refused` unless a task could execute `word` in `directory`."""
    if not word:
        raise Refused("no-such-command", "the command is empty", "give the command after --")
    if "/" in word:
        _check_file(word, os.path.join(directory, word))
        return
    folders = environment.get("PATH", os.defpath)
    if folders and any(map(_is_program, (os.path.join(each, word) for each in folders.split(":")))):
        return
    hint = "check its spelling and your PATH"
    if os.path.isfile(os.path.join(directory, word)):
        hint = f"to run the file here, write ./{word}"
    raise Refused("no-such-command", f"there is no command '{word}'", f"{hint}, {ANYWAY}")


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)


def _check_file(word: str, path: str) -> None:
    if os.path.isdir(path):
        raise Refused("no-such-command", f"{word} is a directory", "name a program in it")
    if not os.path.exists(path):
        raise Refused("no-such-command", f"{word} does not exist", f"check its spelling, {ANYWAY}")
    if not os.access(path, os.X_OK):
        raise Refused(
            "not-executable",
            f"{word} is not executable",
            f"run 'chmod +x {word}', or send its text: iriai submit {word}",
        )


SENT_BYTES_MAX = 64 << 20
"""Most bytes read: a daemon refuses fewer already."""
_LOOK_BYTES = 4096
"""Enough bytes to tell text from a program."""


def is_script(path: StrPath) -> bool:
    """Return whether `path` is a script: it begins with #!, or is not a program.

    Raises:
        Refused: the file cannot be read.
    """
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            return False
        with open(path, "rb") as file:
            start = file.read(_LOOK_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from None
    return start.startswith(b"#!") or (b"\0" not in start and not os.access(path, os.X_OK))


def read_script(path: StrPath) -> bytes:
    """Return the text of a script; raises `Refused` if it cannot run."""
    return _checked(read_sent(path), str(path))


def read_script_from_stdin() -> bytes:
    """As `read_script`, from standard input."""
    return _checked(sys.stdin.buffer.read(SENT_BYTES_MAX + 1), "standard input")


def read_sent(path: StrPath) -> bytes:
    """Return the content of a file that is sent along; raises `Refused` if it cannot be."""
    try:
        with open(path, "rb") as file:
            content = file.read(SENT_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > SENT_BYTES_MAX:
        raise Refused(
            "too-long",
            f"{path} is larger than {SENT_BYTES_MAX >> 20} MiB",
            "leave it where it is, and let the job read it there",
        )
    return content


def _checked(content: bytes, name: str) -> bytes:
    if not content.strip():
        raise Refused("empty-script", f"the script {name} is empty", "write a command into it")
    if content.startswith(b"#!") and content.split(b"\n", 1)[0].endswith(b"\r"):
        raise Refused(
            "dos-script",
            f"the lines of the script {name} end as on Windows, and no interpreter understands "
            "that",
            f"convert it: sed -i 's/\\r$//' {name}",
        )
    return content


def _unreadable(path: StrPath, error: OSError) -> Refused:
    return Refused(
        "unreadable",
        f"{path} cannot be read ({os.strerror(error.errno or 0)})",
        "check its permissions, or name another file",
    )


SCRIPT = "iriai.script"
"""Key in the context's `meta`: the script whose directives were read."""
_ANY = rb"(?m)^#(?:IRIAI|SBATCH|PBS)\b"


class Script(msgspec.Struct, frozen=True):
    """A script to run."""

    path: str
    """Name of the script as given; `-` is standard input."""
    name: str
    content: bytes
    batch: BatchVariables | None = None
    """Facts of the submission that a script for another system expects."""
    settings: tuple[OptionValue, ...] = ()
    """The options that its directives set."""
    directives_are_read: bool = False
    mail_place: str = ""
    """The directive that asks for mail in the words of another system."""

    @property
    def has_directives(self) -> bool:
        """Whether directives may exist that were not read."""
        return not self.directives_are_read and re.search(_ANY, self.content) is not None

    @contextmanager
    def naming_lines(self) -> Iterator[None]:
        """Name the line of a directive in the problem that its option causes."""
        try:
            yield
        except UsageProblem as problem:
            for each in self.settings:
                if problem.message.startswith(f"{each.option}:"):
                    text = f"{each.place}: {problem.message}"
                    raise UsageProblem(problem.code, text, problem.hint) from None
            raise

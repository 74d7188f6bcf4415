"""The directives in the leading comment block of a script, line by line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from iriai.model.problem import UsageProblem

BLOCK_LINES_MAX = 10_000
"""Lines that are read: more than any leading comment has, fewer than a table with `#` rows."""
LINE_LENGTH_MAX = 4_096
"""Characters of a directive: far more than directives of batch systems have."""
_LINE = re.compile(r"#(IRIAI|SBATCH|PBS)(?=\s|$)(.*)")


class Dialect(StrEnum):
    """The batch system of a directive, by the word after the `#`."""

    IRIAI = "IRIAI"
    SLURM = "SBATCH"
    PBS = "PBS"


class ScriptPosition(NamedTuple):
    """A line of a script, to name in messages."""

    script: str
    number: int
    """From 1."""

    def __str__(self) -> str:
        return f"{self.script}, line {self.number}"


class DirectiveLine(NamedTuple):
    """One line with a directive."""

    dialect: Dialect
    words: tuple[str, ...]
    place: ScriptPosition


class Block(NamedTuple):
    """The directives of a script."""

    interpreter: str
    """The text after `#!`; empty without it."""
    lines: tuple[DirectiveLine, ...]
    unread: tuple[DirectiveLine, ...]
    """Directives after the first command, which no batch system reads; without their words."""


def read_block(script: bytes, name: str) -> Block:
    """Return the directives of the script `name`.

    A directive is a line of the leading comments that begins with `#IRIAI`, `#SBATCH` or `#PBS`
    and a space; `##SBATCH` is a comment. Quotes group words as in a shell, and a word that begins
    with `#` begins a comment.

    Raises:
        UsageProblem: a quotation is not closed, or a directive is too long.
    """
    text = script.decode(errors="surrogateescape")
    interpreter = text.split("\n", 1)[0][2:].strip() if text.startswith("#!") else ""
    lines: list[DirectiveLine] = []
    unread: list[DirectiveLine] = []
    leading = True
    for number, line in _numbered(text):
        stripped = line.strip()
        leading = leading and (not stripped or stripped.startswith("#"))
        match = _LINE.match(line)
        if match is None:
            continue
        dialect, place = Dialect(match[1]), ScriptPosition(name, number)
        if leading:
            lines.append(DirectiveLine(dialect, _words(match[2], place), place))
        else:
            unread.append(DirectiveLine(dialect, (), place))
    return Block(interpreter, tuple(lines), tuple(unread))


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for number in range(1, BLOCK_LINES_MAX + 1):
        end = text.find("\n", start)
        yield number, text[start:] if end < 0 else text[start:end]
        if end < 0:
            return
        start = end + 1


def _words(text: str, place: ScriptPosition) -> tuple[str, ...]:
    if len(text) > LINE_LENGTH_MAX:
        raise UsageProblem(
            "bad-directive",
            f"{place}: the directive has {len(text)} characters; the limit is {LINE_LENGTH_MAX}",
            "give long lists of variables to the command, or set them in the script",
        )
    try:
        words = shlex.split(text)
    except ValueError:
        raise UsageProblem(
            "bad-directive", f"{place}: a quotation is not closed", "close it on the same line"
        ) from None
    end = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    return tuple(words[:end])

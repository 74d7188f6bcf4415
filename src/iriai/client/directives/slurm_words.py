"""Options of sbatch from the words of its directives, and values as sbatch writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iriai.client.directives.block import DirectiveLine
from iriai.client.directives.option import (
    Argument,
    Given,
    bad_value,
    unknown,
    without_value,
)
from iriai.client.directives.slurm import NAMES

_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
UNLIMITED = ("0", "UNLIMITED", "INFINITE")
"""No time limit."""


def given_options(line: DirectiveLine) -> Iterator[Given]:
    """The options of one line.

    Raises:
        UsageProblem: sbatch has no such option, or one lacks its value.
    """
    words = list(line.words)
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = NAMES.get(name)
            if option is None:
                raise unknown(line, name, "sbatch")
            if not equals and option.argument is Argument.REQUIRED:
                value = _next(words, line, name)
            yield Given(option, value, line.place)
        elif word.startswith("-") and len(word) > 1:
            yield from _short(word, words, line)
        else:
            raise unknown(line, word, "sbatch")


def _short(word: str, words: list[str], line: DirectiveLine) -> Iterator[Given]:
    """`-N1`, `-n 4`, `-HQ`."""
    for at in range(1, len(word)):
        name = f"-{word[at]}"
        option = NAMES.get(name)
        if option is None:
            raise unknown(line, name, "sbatch")
        if option.argument is Argument.NONE:
            yield Given(option, "", line.place)
            continue
        rest = word[at + 1 :]
        if not rest and option.argument is Argument.REQUIRED:
            rest = _next(words, line, name)
        yield Given(option, rest, line.place)
        return


def _next(words: list[str], line: DirectiveLine, name: str) -> str:
    if not words:
        raise without_value(line, name)
    return words.pop(0)


def whole(given: Given, text: str | None = None) -> int:
    """A number of something, 1 or more."""
    text = given.value if text is None else text
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise bad_value(given, f"'{text}' is not a number of them", "write 1 or more")
    return int(text)


def size_bytes(given: Given) -> int:
    """A size; without a unit it is in MiB."""
    match = _SIZE.fullmatch(given.value)
    if match is None:
        raise bad_value(given, "this is not a size", "write a number and K, M, G or T")
    return int(match[1]) << {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}[match[2].upper()]


def duration_s(given: Given) -> int:
    """M, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    match = _CLOCK.fullmatch(given.value)
    if match is None:
        raise bad_value(given, "this is not a time limit", "write H:MM:SS or D-HH:MM:SS")
    numbers = [int(each) for each in match.groups()[1:] if each is not None]
    if match[1] is not None:
        factors: Sequence[int] = (3600, 60, 1)
    else:
        factors = (60, 1) if len(numbers) < 3 else (3600, 60, 1)
    seconds = sum(a * b for a, b in zip(numbers, factors, strict=False))
    return int(match[1] or 0) * 86400 + seconds

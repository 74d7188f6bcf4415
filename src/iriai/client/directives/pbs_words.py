"""Options of qsub from the words of its directives, and values as qsub writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iriai.client.directives.block import DirectiveLine
from iriai.client.directives.option import (
    Argument,
    Given,
    Option,
    Treatment,
    bad_value,
    unknown,
    without_value,
)
from iriai.client.directives.pbs import NAMES

_SIZE = re.compile(r"(\d+)([KMGTP]?)([BW]?)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+)(?:\.\d+)?")
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_WORD_BYTES = 8


def given_options(line: DirectiveLine) -> Iterator[Given]:
    """The options of one line, `-l` and `-W` in one piece.

    Raises:
        UsageProblem: qsub has no such option, or one lacks its value.
    """
    words = list(line.words)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or len(word) < 2:
            raise unknown(line, word, "qsub")
        for at in range(1, len(word)):
            option = NAMES.get(f"-{word[at]}")
            if option is None:
                raise unknown(line, f"-{word[at]}", "qsub")
            if option.argument is Argument.NONE:
                yield Given(option, "", line.place)
                continue
            value = word[at + 1 :]
            if not value:
                if not words:
                    raise without_value(line, f"-{word[at]}")
                value = words.pop(0)
            yield Given(option, value, line.place)
            break


def parts(given: Given, known: dict[str, Option], separator: str = ",") -> Iterator[Given]:
    """The `name=value` in the value of `-l` or `-W`; a name that is not `known` is a resource."""
    for text in given.value.split(separator):
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise bad_value(given, f"'{text}' is not NAME=VALUE", "write as in walltime=1:00:00")
        option = known.get(name, Option((name,), Treatment.UNDERSTOOD, ""))
        yield Given(option, value, given.place)


def whole(given: Given, text: str) -> int:
    """A number of something, 1 or more."""
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise bad_value(given, f"'{text}' is not a number of them", "write 1 or more")
    return int(text)


def size_bytes(given: Given, text: str) -> int:
    """A size; without a unit it is in bytes, and `w` is a word of eight."""
    match = _SIZE.fullmatch(text)
    if match is None or not int(match[1]):
        raise bad_value(given, f"'{text}' is not a size", "write a number and kb, mb, gb or tb")
    size = int(match[1]) << _SHIFT[match[2].upper()]
    return size * _WORD_BYTES if match[3].upper() == "W" else size


def duration_s(given: Given) -> int:
    """Seconds, M:S or H:M:S."""
    match = _CLOCK.fullmatch(given.value)
    if match is None:
        raise bad_value(given, "this is not a duration", "write H:MM:SS, or seconds")
    hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return hours * 3600 + minutes * 60 + seconds

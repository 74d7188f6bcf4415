"""Lines of PMI-1: `cmd=NAME KEY=VALUE ...`, as Flux RFC 13 describes them."""

from __future__ import annotations

import re

LINE_BYTES_MAX = 4096
"""Of one line, without its end: longer than the longest `put` that the maxima permit."""
KVSNAME_BYTES_MAX = 256
KEY_BYTES_MAX = 64
VALUE_BYTES_MAX = 1024
COMMAND = b"cmd"
SEVERAL = b"mcmd"
"""Begins a command of several lines, of which `spawn` is the only one; `endcmd` is its last."""
_KEY = re.compile(rb"[!-<>-~]{1,%d}" % KEY_BYTES_MAX)
_VALUE = re.compile(rb"[^\0\n]{0,%d}" % VALUE_BYTES_MAX)


class BadLine(ValueError):
    """A line that is no command; the text explains why."""


def split_lines(content: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole lines of `content`, and what follows the last of them.

    Raises `BadLine` if one is too long, or will be.
    """
    *lines, rest = content.split(b"\n")
    longest = max(map(len, (*lines, rest)))
    if longest > LINE_BYTES_MAX:
        raise BadLine(f"a line has more than LINE_BYTES_MAX = {LINE_BYTES_MAX} bytes")
    return lines, rest


def parse_line(line: bytes) -> dict[bytes, bytes]:
    """Return the words of a line by their keys. Raises `BadLine`.

    A `value` is the rest of its line: it may have blanks and equals signs.
    """
    result: dict[bytes, bytes] = {}
    rest = line.removesuffix(b"\r")
    while rest:
        word, _, after = rest.partition(b" ")
        if word:
            key, equals, value = word.partition(b"=")
            if not equals or key in result:
                raise BadLine(f"{word[:64]!r} is no KEY=VALUE, or is there twice")
            if key == b"value":
                after, value = b"", rest.removeprefix(b"value=")
            result[key] = value
        rest = after
    if not result:
        raise BadLine("a line is empty")
    return result


def line_of(command: bytes, **words: bytes | int) -> bytes:
    """Return a line with its end."""
    pairs = (
        b"%b=%b" % (key.encode(), b"%d" % value if isinstance(value, int) else value)
        for key, value in words.items()
    )
    return b" ".join((b"cmd=" + command, *pairs)) + b"\n"


def is_key(key: bytes) -> bool:
    """Return whether `key` can be one of the key-value space."""
    return _KEY.fullmatch(key) is not None


def is_value(value: bytes) -> bool:
    """Return whether `value` can be one of the key-value space."""
    return _VALUE.fullmatch(value) is not None

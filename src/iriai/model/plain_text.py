"""Texts of others, made safe to be written where a line is a line: terminals, logs, reports."""

from __future__ import annotations

LINE_LENGTH_MAX = 4096
"""Of a line of a log: a message that is longer was made to fill the disk, or hides what matters."""


def printable(text: str) -> str:
    """`text` with control characters shown instead of obeyed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def line_of(text: str, length_max: int = LINE_LENGTH_MAX) -> str:
    """`text` as one line of at most about so many characters; says what it leaves out."""
    if len(text) > length_max:
        text = f"{text[:length_max]}... ({len(text) - length_max} characters more)"
    return printable(text)

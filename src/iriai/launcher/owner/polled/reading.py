"""Small files of the kernel, read with care: they vanish, and drivers write what they like."""

from __future__ import annotations

import os
from math import isfinite

FILE_BYTES_MAX = 4096
"""Of files with a number or a few lines."""


class CannotLook(Exception):
    """Nobody can know; the text says why."""


def read_text(path: str, most_bytes: int = FILE_BYTES_MAX) -> str:
    """Return the beginning of a file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, most_bytes).decode("utf-8", errors="replace")
    finally:
        os.close(fd)


def word_in(path: str) -> str:
    """Return the only word of a file; empty if it is gone, or cannot be read."""
    try:
        return read_text(path).strip()
    except OSError:
        return ""


def number_in(path: str) -> float | None:
    """Return the number in a file; None if it is gone, or has none."""
    try:
        number = float(read_text(path))
    except (OSError, ValueError):
        return None
    return number if isfinite(number) else None


def names_in(folder: str, most: int) -> list[str]:
    """Return the first names in a directory, sorted; none if there is no such directory."""
    try:
        return sorted(os.listdir(folder))[:most]
    except OSError:
        return []

"""Sizes and durations as people write them: `4G`, `90s`, `1h30m`, `1:30:00`."""

from __future__ import annotations

import re

from iriai.model.problem import UsageProblem

LINE_LENGTH_MAX = 4096
"""The length of a line of a log: a longer message fills the disk, or hides the important part."""


def printable(text: str) -> str:
    """Return `text` with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def line_of(text: str, length_max: int = LINE_LENGTH_MAX) -> str:
    """Return `text` as one line of about that many characters, with the number of omitted ones."""
    if len(text) > length_max:
        text = f"{text[:length_max]}... ({len(text) - length_max} characters more)"
    return printable(text)


_SIZE = r"(?i)(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?"
_PARTS = r"(?i)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+(?:\.\d+)?)s?)?"
_CLOCK = r"(?:(\d+)-)?(\d+):(\d{1,2}):(\d{1,2})"
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}

DURATION_MAX_S = 10 * 366 * 86400.0
"""Ten years: a longer duration is a typing error, and doubles keep milliseconds below it."""
SIZE_MAX_BYTES = 1 << 60
"""An exbibyte: fits a signed 64-bit integer with room for sums."""
TEXT_LENGTH_MAX = 64
"""Characters of a size or duration: more digits than any valid number has."""


def parse_size(text: str) -> int:
    """Return the bytes of `text`; units are binary (`4G` is 4 x 2^30), no unit is bytes."""
    match = re.fullmatch(_SIZE, text.strip()) if len(text) <= TEXT_LENGTH_MAX else None
    if not match:
        raise UsageProblem(
            "bad-size",
            f"'{text[:TEXT_LENGTH_MAX]}' is not a size",
            "write a number and a unit, as in 512M or 4G",
        )
    size = int(float(match[1]) * 1024 ** _POWERS[match[2].upper()])
    if size > SIZE_MAX_BYTES:
        raise UsageProblem("bad-size", f"'{text}' is more than 1024P", "write a smaller size")
    return size


def parse_duration(text: str) -> float:
    """Return the seconds of `text`: `90s`, `1h30m`, `2d`, `H:MM:SS`, `D-HH:MM:SS`, or a number."""
    stripped = text[: TEXT_LENGTH_MAX + 1].strip()
    seconds = -1.0
    if len(text) > TEXT_LENGTH_MAX:
        pass
    elif clock := re.fullmatch(_CLOCK, stripped):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        if minutes < 60 and rest < 60:
            seconds = days * 86400.0 + hours * 3600 + minutes * 60 + rest
    elif stripped and (parts := re.fullmatch(_PARTS, stripped)):
        factors = (86400, 3600, 60, 1)
        seconds = sum(float(part or 0) * f for part, f in zip(parts.groups(), factors, strict=True))
    if not 0 < seconds <= DURATION_MAX_S:
        raise UsageProblem(
            "bad-duration",
            f"'{text[:TEXT_LENGTH_MAX]}' is not a duration",
            "write 90s, 30m, 1h30m, 2d or H:MM:SS, more than 0 and at most ten years",
        )
    return seconds


def format_size(size_bytes: int) -> str:
    """Return `size_bytes` for people: in the largest binary unit that keeps it at one or more."""
    value = float(size_bytes)
    for unit in ("B", "K", "M", "G", "T"):
        if abs(value) < 1024:
            return f"{value:.0f}{unit}" if value == int(value) else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}P"


def format_duration(seconds: float) -> str:
    """Return `seconds` for people: `0.4s`, `42s`, `3m05s`, `2h07m`, `3d04h`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"

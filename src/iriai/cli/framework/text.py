"""Text for people: harmless to terminals, with readable times and amounts."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable

from iriai.model.resources import describe_amount
from iriai.model.units import format_duration, format_size, printable


def printable_lines(text: str) -> str:
    """Apply `printable` line by line."""
    return "\n".join(map(printable, text.split("\n")))


def command_text(command: Iterable[str]) -> str:
    """Return a command as it would be typed."""
    return printable(shlex.join(command))


def clock_text(wall_s: float, now_wall_s: float) -> str:
    """Return the time of day, with the date if it is not today's."""
    moment, today = time.localtime(wall_s), time.localtime(now_wall_s)
    if moment[:3] == today[:3]:
        return time.strftime("%H:%M:%S", moment)
    if moment[0] == today[0]:
        return time.strftime("%b %d %H:%M", moment)
    return time.strftime("%Y-%m-%d", moment)


def span_text(seconds: float | None) -> str:
    """Return a duration; a dash for None."""
    return "-" if seconds is None else format_duration(max(seconds, 0.0))


def percent_text(fraction: float | None) -> str:
    """Return a fraction of 1 in percent; a dash for None."""
    return "-" if fraction is None else f"{fraction * 100:.1f} %"


def amount_text(resource: str, amount: int) -> str:
    """Return an amount with its resource: `2 cpus`, `4G memory`."""
    return describe_amount(resource.removesuffix("_bytes"), amount)


def amounts_text(resources: dict[str, int]) -> str:
    """Return amounts of several resources in one line."""
    return ", ".join(amount_text(name, amount) for name, amount in resources.items()) or "nothing"


def size_text(size_bytes: int) -> str:
    """Return a size; a dash for None."""
    return format_size(size_bytes) if size_bytes else "-"


def count_text(count: int, one: str) -> str:
    """Return a number with its noun: `1 task`, `2 tasks`, `1,000 tasks`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"

"""Text for people: nothing in it acts upon a terminal, times and amounts are readable."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable

from iriai.model.resources import describe_amount
from iriai.model.units import format_duration, format_size, printable


def printable_lines(text: str) -> str:
    """`printable`, line by line."""
    return "\n".join(map(printable, text.split("\n")))


def command_text(command: Iterable[str]) -> str:
    """A command as one would type it."""
    return printable(shlex.join(command))


def clock_text(wall_s: float, now_wall_s: float) -> str:
    """A moment: the time of day, with the date where it is not today's."""
    moment, today = time.localtime(wall_s), time.localtime(now_wall_s)
    if moment[:3] == today[:3]:
        return time.strftime("%H:%M:%S", moment)
    if moment[0] == today[0]:
        return time.strftime("%b %d %H:%M", moment)
    return time.strftime("%Y-%m-%d", moment)


def span_text(seconds: float | None) -> str:
    """A duration; a dash where there is none."""
    return "-" if seconds is None else format_duration(max(seconds, 0.0))


def percent_text(fraction: float | None) -> str:
    """A fraction of 1; a dash where there is none."""
    return "-" if fraction is None else f"{fraction * 100:.1f} %"


def amount_text(resource: str, amount: int) -> str:
    """An amount with its resource: `2 cpus`, `4G memory`."""
    return describe_amount(resource.removesuffix("_bytes"), amount)


def amounts_text(resources: dict[str, int]) -> str:
    """Amounts of several resources in one line."""
    return ", ".join(amount_text(name, amount) for name, amount in resources.items()) or "nothing"


def size_text(size_bytes: int) -> str:
    """A size; a dash for none."""
    return format_size(size_bytes) if size_bytes else "-"


def count_text(count: int, one: str) -> str:
    """`1 task`, `2 tasks`, `1,000 tasks`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"

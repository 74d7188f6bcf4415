"""Tables: with Rich on a terminal, as aligned plain text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Generic, NamedTuple, TextIO, TypeVar

from iriai.model.resources import describe_amount
from iriai.model.units import format_duration, format_size, printable


def printable_lines(text: str) -> str:
    """Apply `printable` line by line."""
    return "\n".join(map(printable, text.split("\n")))


def command_text(command: Iterable[str]) -> str:
    """Return a command as it would be typed."""
    from shlex import join

    return printable(join(command))


def clock_text(wall_s: float | None) -> str:
    """Return the time of day, with the date if it is not today's; nothing for None."""
    if wall_s is None:
        return ""
    moment, today = time.localtime(wall_s), time.localtime()
    if moment[:3] == today[:3]:
        return time.strftime("%H:%M:%S", moment)
    if moment[0] == today[0]:
        return time.strftime("%b %d %H:%M", moment)
    return time.strftime("%Y-%m-%d", moment)


def date_text(wall_s: float) -> str:
    """Return the date and the time of day."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(wall_s))


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


def names_text(names: Iterable[str]) -> str:
    """Return names with numbers in short: `n[01-03,07],ume`."""
    parts = []
    for stem, group in groupby(names, key=lambda name: name.rstrip("0123456789")):
        each = list(group)
        numbers = [name[len(stem) :] for name in each]
        is_one = len(each) == 1 or not all(numbers)
        parts += each if is_one else [f"{stem}[{','.join(_ranges(numbers))}]"]
    return ",".join(parts)


def _ranges(numbers: Sequence[str]) -> list[str]:
    """Return ascending numbers as ranges of those that follow each other, with as many zeros."""
    found: list[list[str]] = []
    for number in numbers:
        follows = found and int(number) == int(found[-1][-1]) + 1
        if follows and number == f"{int(number):0{len(found[-1][0])}d}":
            found[-1].append(number)
        else:
            found.append([number])
    return [each[0] if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in found]


_WORDS = {
    "green": "running completed ok",
    "cyan": "suspended claimed",
    "yellow": "queued note",
    "magenta": "held cancelled",
    "bold red": "trouble",
    "red": "failed lost time-limit cpu-limit memory-limit disk-limit",
}
STYLES = {word: style for style, words in _WORDS.items() for word in words.split()}
"""Styles of words in a column with `by_word`."""

WIDE_COLUMNS = 100
"""Terminal width from which rarely used columns are shown."""
PAIR_COLUMNS_MIN = 20
"""A narrower terminal breaks the lines itself."""


_Row = TypeVar("_Row")


class Column(NamedTuple, Generic[_Row]):
    """One column of a table."""

    header: str
    cell: Callable[[_Row], str]
    """Returns the text of a row in this column."""
    right: bool = False
    """Aligned right, as numbers are."""
    style: str = ""
    by_word: bool = False
    """Coloured by the word in the cell."""
    folds: bool = False
    """On a narrow terminal, long text continues in further lines."""
    wide: bool = False
    """Omitted on terminals narrower than `WIDE_COLUMNS`."""
    below: bool = False
    """On terminals narrower than `WIDE_COLUMNS`, a sentence below the table instead."""
    shrinks: bool = False
    """On a narrow terminal, long text is cut in this column first."""


def terminal_columns() -> int:
    """Return the width of the terminal."""
    from shutil import get_terminal_size

    return get_terminal_size().columns


class Cells(NamedTuple, Generic[_Row]):
    """What is shown of some rows in some columns."""

    columns: list[Column[_Row]]
    texts: list[list[str]]
    below: list[tuple[str, str]]
    """Names of rows, and the sentences that stand below the table."""


def cells_of(
    columns: Sequence[Column[_Row]], rows: Sequence[_Row], *, is_narrow: bool
) -> Cells[_Row]:
    """Return what a table of `rows` shows; columns without any content are omitted."""
    texts = [[column.cell(row) for column in columns] for row in rows]
    below = [place for place, column in enumerate(columns) if column.below and is_narrow]
    used = [
        place
        for place, column in enumerate(columns)
        if not ((column.wide and is_narrow) or place in below)
        and (not rows or any(text[place] not in ("", "-") for text in texts))
    ]
    return Cells(
        [columns[place] for place in used],
        [[printable(text[place]) for place in used] for text in texts],
        [(text[0], text[place]) for text in texts for place in below],
    )


def print_table(
    columns: Sequence[Column[_Row]], rows: Sequence[_Row], out: TextIO | None = None
) -> None:
    """Print `rows`, to standard output or `out`; columns without any content are omitted."""
    is_terminal = (out or sys.stdout).isatty()
    is_narrow = is_terminal and terminal_columns() < WIDE_COLUMNS
    shown = cells_of(columns, rows, is_narrow=is_narrow)
    if is_terminal:
        _print_rich(shown.columns, shown.texts, out)
        print_pairs(shown.below, out)
    else:
        _print_plain(shown.columns, shown.texts, out)


def print_pairs(pairs: Sequence[tuple[str, str]], out: TextIO | None = None) -> None:
    """Print names and values without empty values; lines of a value are kept."""
    pairs = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in pairs), default=0)
    room = terminal_columns() - width - 2 if (out or sys.stdout).isatty() else 0
    for name, value in pairs:
        lines = [part for line in value.split("\n") for part in _broken(printable(line), room)]
        for place, line in enumerate(lines):
            label = ("" if place else name).ljust(width)
            print(f"\x1b[2m{label}\x1b[0m  {line}" if room else f"{label}  {line}", file=out)


def _broken(line: str, room: int) -> list[str]:
    """Return `line` in pieces that fit into `room` characters; 0 is no limit."""
    if not 0 < room < len(line):
        return [line]
    from textwrap import wrap

    return wrap(line, max(room, PAIR_COLUMNS_MIN), break_on_hyphens=False)


def _print_plain(
    columns: Sequence[Column[_Row]], cells: list[list[str]], out: TextIO | None
) -> None:
    lines = [[column.header for column in columns], *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip(), file=out)


def _print_rich(
    columns: Sequence[Column[_Row]], cells: list[list[str]], out: TextIO | None
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(
            column.header,
            justify="right" if column.right else "left",
            style=column.style,
            # Rich shrinks columns that may wrap before it shrinks others.
            no_wrap=not (column.folds or column.shrinks),
            overflow="fold" if column.folds else "ellipsis",
        )
    for row in cells:
        table.add_row(
            *(
                Text(
                    cell,
                    style=STYLES.get(cell, "") if column.by_word else "",
                    no_wrap=not column.folds,
                    overflow="fold" if column.folds else "ellipsis",
                )
                for cell, column in zip(row, columns, strict=True)
            )
        )
    Console(highlight=False, file=out).print(table)

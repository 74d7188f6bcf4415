"""Tables: with Rich on a terminal, as aligned plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from iriai.cli.plain_text import printable

STYLES = {
    "running": "green",
    "completed": "green",
    "ok": "green",
    "suspended": "cyan",
    "claimed": "cyan",
    "queued": "yellow",
    "note": "yellow",
    "held": "magenta",
    "cancelled": "magenta",
    "trouble": "bold red",
    "failed": "red",
    "lost": "red",
    "time-limit": "red",
    "cpu-limit": "red",
    "memory-limit": "red",
    "disk-limit": "red",
}
"""Of words that a column with `by_word` may hold."""


class Column(NamedTuple):
    """One column."""

    header: str
    right: bool = False
    """Numbers stand right."""
    style: str = ""
    by_word: bool = False
    """Coloured after the word in the cell."""
    folds: bool = False
    """Whether long text goes on in further lines; else it is cut where a terminal ends."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print `rows`; columns without any content are left out."""
    used = [
        place
        for place in range(len(columns))
        if not rows or any(row[place] not in ("", "-") for row in rows)
    ]
    columns = [columns[place] for place in used]
    cells = [[printable(row[place]) for place in used] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, cells, title)
    else:
        _print_plain(columns, cells, title)


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, those without a value left out; lines of a value are kept."""
    pairs = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in pairs), default=0)
    is_terminal = sys.stdout.isatty()
    for name, value in pairs:
        for place, line in enumerate(value.split("\n")):
            label = (name if place == 0 else "").ljust(width)
            label = f"\x1b[2m{label}\x1b[0m" if is_terminal else label
            print(f"{label}  {printable(line)}")


def _print_plain(columns: Sequence[Column], cells: list[list[str]], title: str) -> None:
    lines = [[column.header for column in columns], *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    if title:
        print(title)
    for line in lines:
        padded = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip())


def _print_rich(columns: Sequence[Column], cells: list[list[str]], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, padding=(0, 1)
    )
    for column in columns:
        table.add_column(
            column.header,
            justify="right" if column.right else "left",
            style=column.style,
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
        )
    for row in cells:
        table.add_row(
            *(
                Text(cell, style=STYLES.get(cell, "") if column.by_word else "")
                for cell, column in zip(row, columns, strict=True)
            )
        )
    Console(highlight=False).print(table)

"""Reservations by node and time, as a Gantt chart in the terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from iriai.cli.framework.table import names_text
from iriai.model.units import printable
from iriai.wire.reservations import ReservationRow

COLUMNS_MIN = 24
"""Of the time axis; a narrower terminal breaks the lines itself."""
NAME_COLUMNS_MAX = 24
ROWS_MAX = 60
"""Rows of nodes; more are counted."""
FREE, TAKEN, NOW = ".", "#", "|"
_GAP = "  "
_STEPS_S = (60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 7 * 86_400)
"""Between two marks of the axis."""
MARK_COLUMNS = 14
"""From one mark to the next, at least: one has the day and the time."""


class Axis(NamedTuple):
    """The time from the first column to the end of the last."""

    start_s: float
    column_s: float
    columns: int

    def column(self, wall_s: float) -> int:
        """Return the column of a time, 0 to `columns`."""
        return min(max(int((wall_s - self.start_s) // self.column_s), 0), self.columns)

    def last(self, wall_s: float) -> int:
        """Return the column after that in which something ends; a part of a column is taken."""
        return min(max(int(-(-(wall_s - self.start_s) // self.column_s)), 0), self.columns)


def chart_lines(rows: Sequence[ReservationRow], now_wall_s: float, width: int) -> list[str]:
    """Return the chart in lines of at most `width` columns: a row for nodes that are alike.

    Each reservation is a bar with its id, as far as there is room, between `[` and `]`. Nothing
    that is over is shown; no lines if there is nothing else.
    """
    shown = [row for row in rows if _is_shown(row, now_wall_s)]
    if not shown:
        return []
    by_node: dict[str, list[ReservationRow]] = {}
    for row in shown:
        for node in row.nodes:
            by_node.setdefault(node, []).append(row)
    alike: dict[tuple[str, ...], list[str]] = {}
    for node in sorted(by_node, key=_by_number):
        alike.setdefault(tuple(row.id for row in by_node[node]), []).append(node)
    groups = [*alike.values()][:ROWS_MAX]
    names = [_cut(names_text(map(printable, nodes))) for nodes in groups]
    room = max(map(len, (*names, "Node")))
    axis = _axis(shown, now_wall_s, max(width - room - len(_GAP), COLUMNS_MIN))
    lines = [f"{'Node'.ljust(room)}{_GAP}{line}".rstrip() for line in (_marks(axis),)]
    for name, nodes in zip(names, groups, strict=True):
        lines.append(f"{name.ljust(room)}{_GAP}{_bars(by_node[nodes[0]], axis, now_wall_s)}")
    left_out = len(alike) - len(groups)
    if left_out:
        lines.append(f"and {left_out:,} more rows of nodes")
    return lines


def _by_number(name: str) -> list[tuple[int, str]]:
    """Return the order of a name: `n2` before `n10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(part), part) if part[0] in "0123456789" else (-1, part) for part in parts]


def _is_shown(row: ReservationRow, now_wall_s: float) -> bool:
    return row.state != "over" and bool(row.nodes) and row.end_wall_s > now_wall_s


def _cut(name: str) -> str:
    return name if len(name) <= NAME_COLUMNS_MAX else f"{name[: NAME_COLUMNS_MAX - 3]}..."


def _axis(rows: Iterable[ReservationRow], now_wall_s: float, columns: int) -> Axis:
    """Return the axis from now, or the start of what is open, to the last end."""
    shown = [*rows]
    start_s = min(now_wall_s, *(row.start_wall_s for row in shown))
    end_s = max(row.end_wall_s for row in shown)
    return Axis(start_s, max((end_s - start_s) / columns, 1e-3), columns)


def _marks(axis: Axis) -> str:
    """Return times of day, each from the column where it is; days where they change."""
    least_s = axis.column_s * MARK_COLUMNS
    step_s = next((each for each in _STEPS_S if each >= least_s), _STEPS_S[-1])
    step_s *= max(1, round(least_s / step_s))
    line = ""
    day: tuple[int, ...] = ()
    wall_s = axis.start_s
    while (column := axis.column(wall_s)) < axis.columns:
        local = time.localtime(wall_s)
        text = time.strftime("%H:%M" if local[:3] == day else "%b %d %H:%M", local)
        if column >= len(line) and column + len(text) <= axis.columns:
            line = line.ljust(column) + text + " "
            day = tuple(local[:3])
        wall_s = _next_mark(wall_s, step_s)
    return line.rstrip()


def _next_mark(wall_s: float, step_s: int) -> float:
    """Return the next multiple of `step_s` of local time."""
    offset_s = time.localtime(wall_s).tm_gmtoff
    return ((wall_s + offset_s) // step_s + 1) * step_s - offset_s


def _bars(rows: Iterable[ReservationRow], axis: Axis, now_wall_s: float) -> str:
    cells = [FREE] * axis.columns
    now = axis.column(now_wall_s)
    if axis.start_s < now_wall_s and now < axis.columns:
        cells[now] = NOW
    for row in sorted(rows, key=lambda each: each.start_wall_s):
        first = min(axis.column(row.start_wall_s), axis.columns - 1)
        last = max(axis.last(row.end_wall_s), first + 1)
        cells[first:last] = _bar(printable(row.id), last - first)
    return "".join(cells)


def _bar(name: str, width: int) -> str:
    """Return the bar of a reservation: its id, or as much of its number as there is room."""
    if width < 3:
        return TAKEN * width
    short = name.rpartition("-")[2]
    text = next((each for each in (name, short) if len(each) <= width - 2), "")
    return f"[{text.center(width - 2, TAKEN)}]"

"""`iriai gangs`: the matrix of gangs, rows of time slices by machines, and what stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import msgspec

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import count_text, names_text, span_text, terminal_columns
from iriai.model.suspension import REASON_WORDS
from iriai.model.units import printable
from iriai.wire.reports import GangMatrix, Gangs, GangTable, MachineSlices, StandingTask

IDLE = "-"
TASKS_SHOWN_MAX = 4
"""Tasks of a cell; what a machine runs beside these is counted."""
HEADER_COLUMNS = 24
"""Names of like machines are folded to so many columns."""
HEADER_LINES_MAX = 4
STANDING_SHOWN_MAX = 100
"""Tasks that stand; more than anyone reads."""
_GAP = "  "
_WORDS: dict[str, str] = {reason.value: words for reason, words in REASON_WORDS.items()}
NO_MACHINES = "No machine runs gangs."


class MatrixColumn(msgspec.Struct, frozen=True):
    """Machines that run the same tasks in every row."""

    header: tuple[str, ...]
    """Lines of names."""
    cells: tuple[tuple[str, ...], ...]
    """Lines of each row, that of all rows last."""

    @property
    def width(self) -> int:
        """The columns of the terminal that it needs."""
        lines = (line for cell in (self.header, *self.cells) for line in cell)
        return max(map(len, lines))


def matrix_lines(matrix: GangMatrix, width: int) -> list[str]:
    """Return the matrix in lines of at most `width` columns, if no name or id is longer.

    Each machine has a column. Where these are too many for the width, machines that run the same
    have one together; and where these are too many still, more rows follow below.
    """
    if not matrix.machines:
        return [NO_MACHINES]
    used = max(len(each.rows) for each in matrix.machines) or 1
    labels = ["Row", *map(str, range(used))]
    if any(each.always for each in matrix.machines):
        labels.append("all")
    columns = [_column([each], used, labels) for each in matrix.machines]
    if _total_width(labels, columns) > width:
        columns = [_column(alike, used, labels) for alike in _alike(matrix.machines, used)]
    lines: list[str] = []
    for block in _blocks(labels, columns, width):
        lines += ([""] if lines else []) + _block_lines(labels, block)
    each = f"each for {span_text(matrix.quantum_s)}"
    return [*lines, f"{used} of at most {count_text(matrix.rows_max, 'row')}, {each}."]


def _alike(machines: Iterable[MachineSlices], used: int) -> list[list[MachineSlices]]:
    """Return machines that run the same, together, in the order of the first of each."""
    found: dict[object, list[MachineSlices]] = {}
    for each in machines:
        found.setdefault((_rows(each, used), each.always), []).append(each)
    return [*found.values()]


def _rows(machine: MachineSlices, used: int) -> tuple[tuple[str, ...], ...]:
    return machine.rows + ((),) * (used - len(machine.rows))


def _column(alike: Sequence[MachineSlices], used: int, labels: Sequence[str]) -> MatrixColumn:
    cells = [_cell(tasks) for tasks in _rows(alike[0], used)]
    if labels[-1] == "all":
        cells.append(_cell(alike[0].always))
    return MatrixColumn(_header([printable(each.machine) for each in alike]), tuple(cells))


def _cell(tasks: Sequence[str]) -> tuple[str, ...]:
    lines = [printable(task) for task in tasks[:TASKS_SHOWN_MAX]]
    left_out = len(tasks) - len(lines)
    if left_out:
        lines.append(f"and {left_out} more")
    return tuple(lines) or (IDLE,)


def _header(names: Sequence[str]) -> tuple[str, ...]:
    lines = [""]
    for piece in re.findall(r"[^,]*,|[^,]+$", names_text(names)):
        if lines[-1] and len(lines[-1]) + len(piece) > HEADER_COLUMNS:
            lines.append("")
        lines[-1] += piece
    if len(lines) > HEADER_LINES_MAX:
        lines[HEADER_LINES_MAX - 1 :] = [f"... ({len(names)} machines)"]
    return tuple(lines)


def _total_width(labels: Sequence[str], columns: Iterable[MatrixColumn]) -> int:
    return max(map(len, labels)) + sum(len(_GAP) + column.width for column in columns)


def _blocks(
    labels: Sequence[str], columns: Iterable[MatrixColumn], width: int
) -> list[list[MatrixColumn]]:
    """Return columns that fit beside each other, at least one."""
    blocks: list[list[MatrixColumn]] = []
    for column in columns:
        if blocks and _total_width(labels, [*blocks[-1], column]) <= width:
            blocks[-1].append(column)
        else:
            blocks.append([column])
    return blocks


def _block_lines(labels: Sequence[str], columns: Sequence[MatrixColumn]) -> list[str]:
    widths = [max(map(len, labels)), *(column.width for column in columns)]
    lines = []
    for place, label in enumerate(labels):
        cells = [column.cells[place - 1] if place else column.header for column in columns]
        for line in zip_longest((label,), *cells, fillvalue=""):
            padded = (text.ljust(room) for text, room in zip(line, widths, strict=True))
            lines.append(_GAP.join(padded).rstrip())
    return lines


def table_lines(table: GangTable, width: int) -> list[str]:
    """Return the matrix in lines as `matrix_lines`, and below it what stands, if anything does."""
    lines = matrix_lines(table.matrix, width)
    if not table.standing:
        return lines
    shown = table.standing[:STANDING_SHOWN_MAX]
    cells = [("Stands", "Queue", "For"), *map(_standing_cells, shown)]
    room = max(len(name) for name, _, _ in cells)
    below = [f"{name.ljust(room)}{_GAP}{queue:>5}{_GAP}{what}" for name, queue, what in cells]
    left_out = len(table.standing) - len(shown)
    if left_out:
        below.append(f"and {left_out:,} more")
    return [*lines, "", *below]


def _standing_cells(task: StandingTask) -> tuple[str, str, str]:
    return printable(task.task), str(task.queue), printable(_WORDS.get(task.reason, task.reason))


def gangs(options: GlobalOptions) -> None:
    """Show which tasks take turns on which machines, and which stand for others.

    Each machine has a column, each time slice a row: what is in one row runs together. The row
    "all" has what runs all of the time in queues of mode exclusive, or of mode gang without a
    memory limit. Below is what stands, for a higher queue or since its own is stopped. Jobs of
    queues in mode shared are not here: nothing stops them.
    """
    table = options.ask(Gangs(), follow=False)
    if options.as_json:
        print_document(table)
        return
    print("\n".join(table_lines(table, terminal_columns())))
    if table.note:
        remark(table.note)


app = Command(
    gangs,
    ("iriai gangs", "what runs in which time slice, by machines"),
    ("iriai gang set quantum_s=0.5", "shorter time slices"),
    ("iriai gangs --json", "for a program"),
)

"""A panel on the screen: a heading, and a table or lines below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import DataTable, Static

from iriai.cli.framework.table import STYLES, Cells, Column, cells_of
from iriai.cli.top.panels import Content, Panel, TableContent, TextContent
from iriai.cli.top.source import Section
from iriai.model.units import printable

SHRUNK_MIN = 8
"""Columns that a shrunken column of a table keeps."""
NOTE_FROM = 5
"""Height of a panel from which there is room for its note: heading, columns, two rows."""
GAP = 2
"""Columns of the screen between two of a table."""


def fitted(columns: Sequence[Column[Any]], rows: Sequence[Any], room: int) -> Cells[Any]:
    """Return what a table of `rows` shows that has `room`.

    If it would be wider, it has fewer columns, and then shorter texts in those that may shrink.
    """
    cells = cells_of(columns, rows, is_narrow=False)
    if _width(_widths(cells)) <= room:
        return cells
    cells = cells_of(columns, rows, is_narrow=True)
    return cells._replace(texts=_cut(cells, room))


def _widths(cells: Cells[Any]) -> list[int]:
    return [
        max([len(column.header), *(len(row[place]) for row in cells.texts)])
        for place, column in enumerate(cells.columns)
    ]


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * len(widths)


def _cut(cells: Cells[Any], room: int) -> list[list[str]]:
    """Return the texts, cut in columns that may shrink until the table has `room`."""
    texts = [list(row) for row in cells.texts]
    widths = _widths(cells)
    for place, column in enumerate(cells.columns):
        excess = _width(widths) - room
        if excess <= 0 or not (column.shrinks or column.folds):
            continue
        widths[place] = max(widths[place] - excess, min(widths[place], SHRUNK_MIN))
        for row in texts:
            if len(row[place]) > widths[place]:
                row[place] = f"{row[place][: widths[place] - 1]}…"
    return texts


def heights(wanted: Sequence[int], room: int) -> list[int]:
    """Divide `room` lines among panels, which want so many: small ones first, the rest evenly.

    What nobody wants is the last one's. None gets less than two lines, its heading and one more.
    """
    given = [0] * len(wanted)
    left, panels = room, sorted(range(len(wanted)), key=lambda place: wanted[place])
    for done, place in enumerate(panels):
        given[place] = max(2, min(wanted[place], left // (len(panels) - done)))
        left -= given[place]
    if given and left > 0:
        given[-1] += left
    return given


class PanelView(Vertical):
    """One panel. It has the focus through what is in it."""

    DEFAULT_CSS = """
    PanelView { border-top: solid $primary; border-title-style: bold; height: 1fr; }
    PanelView:focus-within { border-top: heavy $accent; }
    PanelView DataTable { height: 1fr; background: $background; scrollbar-size: 0 1; }
    PanelView DataTable > .datatable--cursor { background: $background; color: $foreground; }
    PanelView DataTable:focus > .datatable--cursor { background: $block-cursor-background; }
    PanelView VerticalScroll { height: 1fr; scrollbar-size: 0 1; }
    PanelView .note { height: 1; color: $text-muted; display: none; }
    """

    def __init__(self, panel: Panel, number: int) -> None:
        super().__init__(id=f"panel-{panel.name}")
        self._title = f"{number} {panel.title}"
        self.panel = panel
        self.table: DataTable[Text] = DataTable(
            cursor_type="row",
            cursor_foreground_priority="renderable",
            id=f"table-{panel.name}",
        )
        self._scroll = VerticalScroll(can_focus=True)
        self._lines = Static(markup=False)
        self._note = Static(markup=False, classes="note")
        self._section: Section | None = None
        self._content: Content | None = None
        """What is shown of it."""
        self._has_note = False
        self._names: list[str] = []
        self._drawn: object = None
        """What the table has; the same is not drawn again."""

    def compose(self) -> ComposeResult:
        """Make what is in it."""
        yield self.table
        with self._scroll:
            yield self._lines
        yield self._note

    def on_mount(self) -> None:
        """Show nothing yet."""
        self.border_title = self._title
        self._scroll.display = False

    def on_resize(self) -> None:
        """Draw again in the new width."""
        if self._section is not None:
            self.show(self._section)

    def take_focus(self) -> None:
        """Have the keys go to this panel."""
        (self.table if self.table.display else self._scroll).focus()

    @property
    def wanted_height(self) -> int:
        """How many lines would show all of it."""
        if isinstance(self._content, TextContent):
            lines = len(self._content.lines(self._room))
        else:
            lines = self._table_lines
        return 1 + lines + self._has_note

    def give(self, lines: int) -> None:
        """Have so many lines of the screen."""
        self.styles.height = lines
        self._divide(lines)

    def _divide(self, lines: int) -> None:
        """Divide `lines` between the heading, what is in the panel, and its note."""
        shows_note = self._has_note and lines >= min(NOTE_FROM, 2 + self._table_lines)
        self._note.display = shows_note
        self.table.styles.height = min(self._table_lines, max(lines - 1 - shows_note, 0))

    @property
    def _table_lines(self) -> int:
        return 1 + len(self._names) if self._names else 0

    @property
    def _room(self) -> int:
        """Columns of the screen beside the bar that scrolls."""
        return max(self.size.width - 1, 1)

    @property
    def chosen(self) -> tuple[Sequence[Column[Any]], Any] | None:
        """The row under the cursor with its columns; None where there is none."""
        content = self._content
        place = self.table.cursor_row
        if isinstance(content, TableContent) and 0 <= place < min(
            len(content.rows), len(self._names)
        ):
            return content.columns, content.rows[place]
        return None

    def show(self, section: Section) -> None:
        """Draw what the panel was told."""
        self._section = section
        content = self._content = section.content
        note = str(section.problem) if section.problem else ""
        is_table = not isinstance(content, TextContent)
        self.table.display = is_table
        self._scroll.display = not is_table
        if isinstance(content, TextContent):
            self.border_title = self._title
            lines = "\n".join(map(printable, content.lines(self._room)))
            self._lines.update(Text(lines))
        else:
            note = "; ".join(filter(None, (self._show_rows(content), note)))
        if content is not None and content.note:
            note = "; ".join(filter(None, (note, content.note)))
        self._has_note = bool(note)
        self._note.update(Text(printable(note)))
        self._divide(self.size.height + 1)

    def _show_rows(self, content: TableContent | None) -> str:
        """Draw a table, with the cursor where it was; return what stands below it."""
        if content is None:
            content = TableContent((), (), str)
        cells = fitted(content.columns, content.rows, self._room)
        headers = [column.header for column in cells.columns]
        names = [content.name_of(row) for row in content.rows]
        self.border_title = f"{self._title} ({len(names)})" if names else self._title
        if self._drawn != (headers, cells.texts, names):
            self._drawn = (headers, cells.texts, names)
            self._fill(cells.columns, cells.texts, _widths(cells), names)
        return "; ".join(f"{name}: {why}" for name, why in cells.below if why)

    def _fill(
        self,
        columns: Sequence[Column[Any]],
        texts: Sequence[Sequence[str]],
        widths: Sequence[int],
        names: list[str],
    ) -> None:
        table = self.table
        before = table.cursor_row
        name = self._names[before] if 0 <= before < len(self._names) else None
        scrolled = table.scroll_offset
        self._names = names
        table.clear(columns=True)
        if not names:
            return
        for column, width in zip(columns, widths, strict=True):  # which it would else measure
            header = Text(column.header, justify="right" if column.right else "left")
            table.add_column(header, width=width)
        for row in texts:
            cells = zip(row, columns, strict=True)
            table.add_row(*(_cell(text, column) for text, column in cells))
        place = names.index(name) if name in names else min(before, len(names) - 1)
        table.move_cursor(row=place, scroll=False)
        table.scroll_to(scrolled.x, scrolled.y, animate=False)


def _cell(text: str, column: Column[Any]) -> Text:
    style = STYLES.get(text, "") if column.by_word else column.style
    return Text(text, style=style, justify="right" if column.right else "left", no_wrap=True)

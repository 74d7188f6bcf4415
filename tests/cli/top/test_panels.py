"""Bars, widths and heights of the panels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.cli.framework.table import Column
from iriai.cli.jobs import jobs
from iriai.cli.top.panel_view import GAP, SHRUNK_MIN, fitted, heights
from iriai.cli.top.panels import BAR_COLUMNS, PANELS, ROWS_MAX, bar_text
from iriai.wire.machines import NodeTable
from iriai.wire.reports import ShareTable
from tests.cli.top.daemon import JOBS, NODES, SHARES


@given(st.floats(-1, 2), st.none() | st.floats(-1, 2))
def test_a_bar_has_its_width_and_tells_some_from_none_and_all(part, mark):
    bar = bar_text(part, mark)
    assert len(bar) == BAR_COLUMNS
    assert bar.count("┃") == (mark is not None)
    full = bar_text(part).count("█")
    assert (full == 0) == (part <= 0)
    assert (full == BAR_COLUMNS) == (part >= 1)


@given(st.lists(st.integers(2, 600), min_size=1, max_size=7), st.integers(20, 200))
def test_heights_fill_the_room_and_small_panels_are_whole(wanted, room):
    given_lines = heights(wanted, room)
    assert sum(given_lines) == room
    assert min(given_lines) >= 2
    for want, lines in zip(wanted[:-1], given_lines, strict=False):
        assert lines <= want
        assert lines == want or lines >= room // len(wanted)


@given(st.integers(1, 200))
def test_a_table_is_cut_only_where_it_may_be(room):
    cells = fitted(jobs.COLUMNS, JOBS, room)
    kept = [column.header for column in cells.columns]
    assert kept[0] == "Job"
    for row, job in zip(cells.texts, JOBS, strict=True):
        assert row[0] == job.id
        name = row[kept.index("Name")]
        assert len(name) >= min(len(job.name), SHRUNK_MIN)


def test_a_narrow_table_leaves_columns_out_before_it_cuts_texts():
    columns = (
        Column("Name", str, shrinks=True),
        Column("Rare", lambda _: "rare", wide=True),
    )
    row = "a long name"
    assert fitted(columns, [row], len(row) + 4 + 2 * GAP).texts == [[row, "rare"]]
    assert fitted(columns, [row], len(row) + 3 + 2 * GAP).texts == [[row]]
    assert fitted(columns, [row], len(row) + GAP - 1).texts == [["a long na…"]]


def test_a_large_cluster_has_so_many_rows_as_anyone_reads():
    machines, _, shares, *_ = PANELS
    content = machines.content(NodeTable(NODES * ROWS_MAX, "b is silent"))
    assert len(content.rows) == ROWS_MAX
    assert content.note == f"and {2 * ROWS_MAX:,} more; b is silent"
    assert len(shares.content(ShareTable("lottery", 1.0, SHARES * ROWS_MAX)).rows) == ROWS_MAX


def test_panels_without_rows_say_why():
    machines, _, shares, *_ = PANELS
    assert "start a back end" in machines.content(NodeTable(())).note
    assert "none waits" in shares.content(ShareTable("lottery", 1.0, ())).note

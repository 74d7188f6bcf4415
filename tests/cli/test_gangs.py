"""The matrix of gangs as text: machines in order, like ones together, nothing lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.cli.framework.table import names_text
from iriai.cli.queues.gangs import (
    STANDING_SHOWN_MAX,
    TASKS_SHOWN_MAX,
    matrix_lines,
    table_lines,
)
from iriai.reports.gangs import gang_matrix
from iriai.wire.reports import GangTable, StandingTask
from tests.client.double import double

IDS = st.integers(1, 12).map(lambda number: f"ume-{number}.1")
CELLS = st.lists(IDS, max_size=3, unique=True)
MACHINES = st.dictionaries(
    st.integers(1, 200).map("node{}".format), st.lists(CELLS, max_size=4), max_size=70
)


def expanded(text: str) -> list[str]:
    """The names that are short in `names_text`."""
    names = []
    for part in re.findall(r"[^,\[]+\[[^\]]*\]|[^,]+", text):
        stem, bracket, numbers = part.rstrip("]").partition("[")
        if not bracket:
            names.append(part)
            continue
        for each in numbers.split(","):
            first, _, last = each.partition("-")
            numbered = range(int(first), int(last or first) + 1)
            names += [f"{stem}{number:0{len(first)}d}" for number in numbered]
    return names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["ume"], "ume"),
        (["n1", "n2", "n3"], "n[1-3]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n01", "n02", "n04", "n10"], "n[01-02,04,10]"),
        (["n1", "n3", "ume", "x7"], "n[1,3],ume,x7"),
        (["4", "5"], "[4-5]"),
    ],
)
def test_names_are_folded(names, text):
    assert names_text(names) == text


@given(st.lists(st.integers(0, 300), unique=True, min_size=1), st.integers(1, 3))
def test_no_name_is_lost_by_folding(numbers, digits):
    names = [f"n{number:0{digits}d}" for number in sorted(numbers)]
    assert expanded(names_text(names)) == names


@given(MACHINES, st.integers(40, 200))
def test_the_matrix_fits_and_each_task_is_in_it(rows_of, width):
    matrix = gang_matrix(rows_of, {}, rows_max=4, quantum_s=1.0)
    lines = matrix_lines(matrix, width)
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    for rows in rows_of.values():
        for task in (task for row in rows for task in row):
            assert task in shown


@given(MACHINES)
def test_machines_are_in_order_and_idle_rows_at_the_end_are_left_out(rows_of):
    matrix = gang_matrix(rows_of, {}, rows_max=4, quantum_s=1.0)
    numbers = [int(each.machine.removeprefix("node")) for each in matrix.machines]
    assert numbers == sorted(numbers)
    assert all(not each.rows or each.rows[-1] for each in matrix.machines)


def test_a_row_of_a_gang_has_it_on_all_its_machines():
    rows_of = {f"n{place}": [["ume-1.1"], ["ume-2.1"] if place < 3 else []] for place in range(4)}
    matrix = gang_matrix(rows_of, {"n3": ["ume-9.1"]}, rows_max=2, quantum_s=0.5)
    assert matrix_lines(matrix, 80) == [
        "Row  n0       n1       n2       n3",
        "0    ume-1.1  ume-1.1  ume-1.1  ume-1.1",
        "1    ume-2.1  ume-2.1  ume-2.1  -",
        "all  -        -        -        ume-9.1",
        "2 of at most 2 rows, each for 0.5s.",
    ]
    assert matrix_lines(matrix, 30) == [
        "Row  n[0-2]   n3",
        "0    ume-1.1  ume-1.1",
        "1    ume-2.1  -",
        "all  -        ume-9.1",
        "2 of at most 2 rows, each for 0.5s.",
    ]


def test_a_machine_with_many_small_tasks_does_not_fill_the_screen():
    tasks = [f"ume-1.{index}" for index in range(100)]
    lines = matrix_lines(gang_matrix({}, {"ume": tasks}, rows_max=4, quantum_s=1.0), 80)
    assert len(lines) == 2 + TASKS_SHOWN_MAX + 1 + 1
    assert lines[-2].endswith("and 96 more")


def test_names_of_machines_are_no_control_of_the_terminal():
    matrix = gang_matrix({"\x1b[2J": [["\x1b[31m"]]}, {}, rows_max=1, quantum_s=1.0)
    assert "\x1b" not in "".join(matrix_lines(matrix, 80))


def test_what_stands_is_below_with_its_queue_and_for_whom(state, shell):
    standing = (
        StandingTask("ume-7.1", 1, "higher-queue", ("n1", "n2")),
        StandingTask("ume-12.10", 10, "stopped-queue"),
        StandingTask("ume-13.1", 2, "what a later version says"),
    )
    matrix = gang_matrix({"n1": [["ume-3.1"]]}, {}, rows_max=4, quantum_s=1.0)
    with double(state, lambda _: GangTable(matrix, "the broker is silent", standing)):
        said = shell("gangs")
        document = shell("gangs", "--json").document
    assert said.out.splitlines() == [
        "Row  n1",
        "0    ume-3.1",
        "1 of at most 4 rows, each for 1.0s.",
        "",
        "Stands     Queue  For",
        "ume-7.1        1  a higher queue",
        "ume-12.10     10  its queue, which is stopped",
        "ume-13.1       2  what a later version says",
    ]
    assert "silent" in said.err
    assert document["standing"][0]["machines"] == ["n1", "n2"]
    assert document["matrix"]["machines"][0]["rows"] == [["ume-3.1"]]


def test_so_many_that_stand_are_shown_as_anyone_reads():
    matrix = gang_matrix({}, {}, rows_max=4, quantum_s=1.0)
    standing = (StandingTask("\x1b[2J", 1, "\x1b[31m"),) * (STANDING_SHOWN_MAX + 1200)
    lines = table_lines(GangTable(matrix, standing=standing), 80)
    assert lines[-1] == "and 1,200 more"
    assert len(lines) == STANDING_SHOWN_MAX + 4
    assert "\x1b" not in "".join(lines)

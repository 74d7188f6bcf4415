"""`iriai pools`: what is printed, and what is refused."""

from __future__ import annotations

from iriai.wire.machines import PoolKind, PoolRow, PoolTable
from tests.client.double import double

BLADE = PoolKind("X86_64", "Debian12", "AMD EPYC 7763", 64, 3)
DESK = PoolKind("X86_64", "Debian12", "", 1, 1)
DESKS = (
    "1 x X86_64, Debian12, 1 cpu; 3 x X86_64, Debian12, AMD EPYC 7763, 64 cpus; "
    "1 machine of other kinds"
)
ROWS = (
    PoolRow("3f9c02ab", (BLADE,), ("b1", "b2", "b3"), 2, 192, 100, 28.5, 128.0),
    PoolRow("desks", (DESK, BLADE), ("d1", "d2", "d3", "d4", "d5"), 5, 8, 8, 0.0, 8.0),
    PoolRow("", (), ("old",), 1, 4, 4, 0.25, 4.0),
)


def test_pools_are_listed_with_what_they_are(state, shell):
    with double(state, lambda _: PoolTable(ROWS, "cluster west: it is silent")):
        said = shell("pools")
        document = shell("pools", "--json").document
    assert said.code == 0
    assert said.out.splitlines() == [
        "Pool       Machines        Cpus   Load  Speed  Kind",
        "3f9c02ab     2 of 3  100 of 192  28.50    128  X86_64, Debian12, AMD EPYC 7763, 64 cpus",
        f"desks             5      8 of 8   0.00      8  {DESKS}",
        "(no name)         1      4 of 4   0.25      4  1 machine of other kinds",
    ]
    assert "cluster west" in said.err
    assert [row["name"] for row in document["rows"]] == ["3f9c02ab", "desks", ""]
    assert document["rows"][0]["machines"] == ["b1", "b2", "b3"]


def test_the_machines_of_one_pool_are_named(state, shell):
    with double(state, lambda _: PoolTable(ROWS)):
        said = shell("pools", "desks")
        document = shell("pools", "desks", "--json").document
    assert "3f9c02ab" not in said.out
    assert said.out.endswith("Machines: d1, d2, d3, d4, d5\n")
    assert [row["name"] for row in document["rows"]] == ["desks"]


def test_a_pool_that_is_not_there_is_refused_with_those_that_are(state, shell):
    with double(state, lambda _: PoolTable(ROWS)):
        said = shell("pools", "rack1")
    assert said.code == 4
    assert "there is no pool 'rack1'" in said.err
    assert "use one of: 3f9c02ab, desks" in said.err


def test_where_no_machine_runs_tasks_that_is_said(state, shell):
    with double(state, lambda _: PoolTable(())):
        said = shell("pools")
    assert (said.code, said.out) == (0, "")
    assert "No machine runs tasks yet" in said.err

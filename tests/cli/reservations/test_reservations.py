"""`iriai reservations` and `iriai reservation`: table, chart, details, and giving back."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.cli.framework import completion
from iriai.cli.reservations.chart import FREE, TAKEN, chart_lines
from iriai.model.problem import ExitCode, NotAllowed, NotFound, Refused
from iriai.wire.exchange import Done
from iriai.wire.requests import Why
from iriai.wire.reservations import (
    AskReservations,
    EndReservation,
    ReservationRow,
    ReservationTable,
)
from tests.client.double import double

NOW_S = 1_900_000_000.0
HOUR_S = 3600.0
OWN = ReservationRow(
    "ume-r7",
    "confirmed",
    NOW_S + HOUR_S,
    NOW_S + 9 * HOUR_S,
    3,
    ("n1", "n2", "n3"),
    is_usable=True,
    is_detailed=True,
    account="lab/ann",
    user="ann",
    users=("bob",),
    group="lecture",
    resources={"cpus": 4},
    requirements="Mips > 9000",
    asked_wall_s=NOW_S,
)
OTHER = ReservationRow(
    "momo-r1", "reserved", NOW_S + 2 * HOUR_S, NOW_S + 4 * HOUR_S, 2, ("n4", "n10")
)
OVER = ReservationRow(
    "ume-r2", "over", NOW_S - 4 * HOUR_S, NOW_S - 2 * HOUR_S, 1, ("n1",), "no-show"
)


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "100")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_all_are_listed_with_a_chart(state, shell, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    with double(state, lambda _: ReservationTable((OWN, OTHER), "the broker is silent")) as server:
        said = shell("reservations")
    assert server.received == [AskReservations()]
    table, _, chart = said.out.partition("\n\n")
    head, own, other = (line.split("  ") for line in table.splitlines())
    assert [word.strip() for word in head if word] == [
        *("Reservation", "State", "Start", "End", "For", "Yours", "Account", "Number", "Nodes"),
    ]
    assert [word.strip() for word in own if word] == [
        *("ume-r7", "confirmed", "2030-03-17 18:46", "2030-03-18 02:46", "8h00m", "yes"),
        *("lab/ann", "3", "n[1-3]"),
    ]
    assert [word.strip() for word in other if word] == [
        *("momo-r1", "reserved", "2030-03-17 19:46", "2030-03-17 21:46", "2h00m", "no"),
        *("2", "n[4,10]"),
    ]
    first, *rows = chart.splitlines()
    assert first.split()[:3] == ["Node", "Mar", "17"]
    assert [row.split()[0] for row in rows] == ["n[1-3]", "n[4,10]"]
    assert "ume-r7" in rows[0]
    assert "momo-r1" in rows[1]
    assert "silent" in said.err


def test_those_that_are_over_are_listed_on_request_and_in_no_chart(state, shell):
    with double(state, lambda _: ReservationTable((OVER,))) as server:
        said = shell("reservations", "--all")
    assert server.received == [AskReservations(over=True)]
    assert "no-show" in said.out
    assert len(said.out.splitlines()) == 2


def test_if_there_are_none_that_is_said(state, shell):
    with double(state, lambda _: ReservationTable(())):
        said = shell("reservations")
        document = shell("reservations", "--json").document
    assert (said.code, said.out) == (0, "")
    assert "no reservations" in said.err
    assert document["rows"] == []


def test_show_has_all_that_is_known(state, shell):
    with double(state, lambda _: ReservationTable((OWN,))) as server:
        said = shell("reservation", "show", "ume-r7")
        document = shell("reservation", "show", "ume-r7", "--json").document
    assert server.received[0] == AskReservations(id="ume-r7")
    assert said.out.splitlines() == [
        "reservation      ume-r7",
        "start            2030-03-17T18:46:40+00:00",
        "end              2030-03-18T02:46:40+00:00",
        "number of nodes  3",
        "nodes            n[1-3]",
        "state            confirmed",
        "for              8h00m",
        "account          lab/ann",
        "user             ann",
        "also used by     bob, the group lecture",
        "each gives       4 cpus",
        "requires         Mips > 9000",
        "asked for        2030-03-17T17:46:40+00:00",
    ]
    assert document["nodes"] == ["n1", "n2", "n3"]


def test_of_those_of_others_time_and_place_are_shown(state, shell):
    with double(state, lambda _: ReservationTable((OTHER,))):
        said = shell("reservation", "show", "momo-r1")
    assert [line.split("  ")[0] for line in said.out.splitlines()] == [
        "reservation",
        "start",
        "end",
        "number of nodes",
        "nodes",
        "state",
        "for",
    ]


def test_one_that_lost_a_node_says_which_and_one_that_is_over_who_gave_it_back(state, shell):
    lacking = replace(OWN, missing=("n2", "n3"), by="kim", over_wall_s=NOW_S)
    with double(state, lambda _: ReservationTable((lacking,))):
        out = shell("reservation", "show", "ume-r7").out
    assert "lacks            n[2-3]" in out
    assert "over since       2030-03-17T17:46:40+00:00" in out
    assert "given back by    kim" in out


@pytest.mark.parametrize(
    ("verb", "request_sent", "word"),
    [
        ("cancel", EndReservation("ume-r7"), "cancelled"),
        ("end", EndReservation("ume-r7", is_open_only=True), "ended"),
    ],
)
def test_it_is_given_back(state, shell, verb, request_sent, word):
    with double(state, lambda _: Done()) as server:
        said = shell("reservation", verb, "ume-r7")
        document = shell("reservation", verb, "ume-r7", "--json").document
    assert server.received[0] == request_sent
    assert said.out == f"{word}: ume-r7\n"
    assert document == {"id": "ume-r7"}


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (NotFound("no-such-reservation", "there is no reservation ume-r9"), ExitCode.NOT_FOUND),
        (NotAllowed("not-yours", "ume-r9 belongs to bob"), ExitCode.NOT_ALLOWED),
        (Refused("not-open", "ume-r9 is not open"), ExitCode.REFUSED),
    ],
)
@pytest.mark.parametrize("verb", ["show", "cancel", "end"])
def test_a_refusal_keeps_its_exit_code(state, shell, problem, code, verb):
    def refuse(_):
        raise problem

    with double(state, refuse):
        said = shell("reservation", verb, "ume-r9")
    assert said.code == code
    assert said.err.startswith(f"iriai: {problem.message}")


def test_the_shell_completes_those_that_may_be_used_and_all_that_are_there(state):
    context = SimpleNamespace(params={"state": state})
    with double(state, lambda _: ReservationTable((OWN, OTHER))):
        own = completion.complete_reservation(context)
        every = completion.complete_any_reservation(context)
    assert own == [("ume-r7", "confirmed, 2030-03-17 18:46 to 2030-03-18 02:46")]
    assert [name for name, _ in every] == ["ume-r7", "momo-r1"]


# --- the chart -----------------------------------------------------------------------------------

NODES = st.integers(1, 40).map("n{}".format)
ROWS = st.lists(
    st.builds(
        lambda number, start_s, length_s, nodes: ReservationRow(
            f"ume-r{number}",
            "confirmed",
            NOW_S + start_s,
            NOW_S + start_s + length_s,
            len(nodes),
            tuple(nodes),
        ),
        st.integers(1, 10**15),
        st.floats(-1e5, 3e6),
        st.floats(60.0, 2.6e6),
        st.lists(NODES, min_size=1, max_size=8, unique=True),
    ),
    max_size=12,
)


@given(ROWS, st.integers(60, 200))
def test_the_chart_fits_and_each_node_has_one_row(rows, width):
    lines = chart_lines(rows, NOW_S, width)
    ahead = [row for row in rows if row.end_wall_s > NOW_S]
    assert bool(lines) == bool(ahead)
    assert all(len(line) <= width for line in lines)
    bars = [line for line in lines[1:] if not line.startswith("and ")]
    assert all(set("[#") & set(bar) for bar in bars)


def test_a_bar_is_where_its_time_is():
    rows = [ReservationRow("ume-r1", "confirmed", NOW_S + HOUR_S, NOW_S + 2 * HOUR_S, 1, ("n1",))]
    head, row = chart_lines(rows, NOW_S, 66)
    bar = row.removeprefix("n1    ")
    assert len(bar) == 60
    assert bar == FREE * 30 + f"[{'ume-r1'.center(28, TAKEN)}]"
    assert head.startswith("Node  Mar 17 17:46")


def test_nodes_that_are_reserved_alike_have_one_row_in_the_order_of_their_numbers():
    rows = [
        ReservationRow("ume-r1", "open", NOW_S, NOW_S + HOUR_S, 3, ("n10", "n2", "n1")),
        ReservationRow("ume-r2", "open", NOW_S + HOUR_S, NOW_S + 2 * HOUR_S, 1, ("n10",)),
    ]
    lines = chart_lines(rows, NOW_S, 100)
    assert [line.split()[0] for line in lines[1:]] == ["n[1-2]", "n10"]


def test_a_short_one_is_seen_too():
    rows = [
        ReservationRow("ume-r1", "confirmed", NOW_S + 10, NOW_S + 70, 1, ("n1",)),
        ReservationRow("ume-r2", "confirmed", NOW_S, NOW_S + 30 * 86_400, 1, ("n2",)),
    ]
    assert TAKEN in chart_lines(rows, NOW_S, 80)[1]


def test_names_from_elsewhere_do_nothing_to_the_terminal():
    rows = [ReservationRow("\x1b[31m-r1", "open", NOW_S, NOW_S + HOUR_S, 1, ("\x1b[2J",))]
    assert "\x1b" not in "\n".join(chart_lines(rows, NOW_S, 100))


def test_a_series_is_shown_with_its_rule_and_what_comes_next(state, shell):
    row = replace(
        OWN,
        state="repeating",
        nodes=(),
        rule="FREQ=DAILY",
        zone="Europe/Berlin",
        following=(NOW_S, NOW_S + 24 * HOUR_S),
    )
    with double(state, lambda _: ReservationTable((row,))):
        said = shell("reservation", "show", "ume-r7")
    assert "repeated         FREQ=DAILY in Europe/Berlin\n" in said.out
    assert "next             2030-03-17T17:46:40+00:00, 2030-03-18T17:46:40+00:00\n" in said.out


def test_an_occurrence_that_could_not_be_had_is_shown_with_its_reasons(state, shell):
    why = Why("machine-busy", "3 machines at once", "2 of 9 machines could give one")
    row = replace(OWN, id="ume-r7.3", state="over", cause="refused", nodes=(), reasons=(why,))
    with double(state, lambda _: ReservationTable((row,))):
        said = shell("reservation", "show", "ume-r7.3")
    assert "state            over, refused\n" in said.out
    assert "why              the machine is busy: needs 3 machines at once; 2 of 9" in said.out

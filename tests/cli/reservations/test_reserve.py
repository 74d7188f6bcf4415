"""`iriai reserve`: what is sent, what is printed, and what is refused before anything is sent."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from iriai.client.wall_time import parse_wall_time
from iriai.model.problem import ExitCode, Refused
from iriai.wire.requests import Why
from iriai.wire.reservations import ReservationPlan, Reserve, Reserved, ReservedSeries
from tests.client.double import double

START_S = 1_900_000_000.0
HOUR_S = 3600.0
DONE = Reserved("ume-r7", START_S, START_S + HOUR_S, ("n1", "n2", "n3"))


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def sent(state, shell, *words: str) -> Reserve:
    """What a command line asks for."""
    with double(state, lambda _: DONE) as server:
        said = shell("reserve", *words)
    assert said.code == 0, said.err
    (request,) = server.received
    assert isinstance(request, Reserve)
    return request


def test_the_id_stands_alone_and_the_rest_is_a_remark(state, shell):
    with double(state, lambda _: DONE):
        said = shell("reserve", "-s", "+1h", "-d", "1h", "-n", "3")
        document = shell("reserve", "-s", "+1h", "-d", "1h", "-n", "3", "--json").document
    assert said.out == "ume-r7\n"
    assert said.err == (
        "iriai: 2030-03-17T17:46:40+00:00 to 2030-03-17T18:46:40+00:00 on 3 nodes: n[1-3]\n"
    )
    assert document == {
        "id": "ume-r7",
        "start_wall_s": START_S,
        "end_wall_s": START_S + HOUR_S,
        "nodes": ["n1", "n2", "n3"],
    }


def test_all_that_is_asked_for_is_sent(state, shell):
    request = sent(
        *(state, shell),
        *("-s", "2030-01-01T09:00+01:00", "-e", "17:00 Europe/Berlin", "-n", "4"),
        *("--cpus", "8", "--memory", "4G", "--gpus", "1", "--resource", "licence=2"),
        *("--requirements", "Mips > 9000", "--for", "ann, bob,,lecture"),
        *("--group", "lab", "--account", "kim"),
    )
    nine = parse_wall_time("2030-01-01T09:00+01:00", 0.0)
    assert request == Reserve(
        nine,
        nine + 8 * HOUR_S,
        4,
        8,
        4 << 30,
        1,
        (("licence", 2),),
        "Mips > 9000",
        ("ann", "bob", "lecture"),
        group="lab",
        account="kim",
    )


def test_without_amounts_whole_machines_are_asked_for(state, shell):
    request = sent(state, shell, "-s", "now", "-d", "90m", "-n", "1")
    assert (request.cpus, request.memory_bytes, request.gpus, request.named) == (
        None,
        None,
        None,
        (),
    )
    assert request.end_wall_s - request.start_wall_s == 1.5 * HOUR_S
    assert abs(request.start_wall_s - time.time()) < 60


def test_a_kind_of_resource_has_an_option_of_its_own(state, shell):
    request = sent(state, shell, "-s", "now", "-d", "1h", "-n", "1", "--disk", "2G")
    assert request.named == (("disk", 2 << 30),)


def test_the_earliest_needs_no_start(state, shell):
    request = sent(state, shell, "--earliest", "-d", "4h", "-n", "16")
    assert request.is_earliest
    assert abs(request.start_wall_s - time.time()) < 60


def test_a_dry_run_shows_the_terms(state, shell):
    plan = ReservationPlan(
        *("lab/ann", START_S, START_S + HOUR_S, 3, {"cpus": 2}, ("bob",), "lecture"),
        nodes=("n1", "n2", "n3"),
    )
    with double(state, lambda _: plan) as server:
        said = shell("reserve", "-s", "+1h", "-d", "1h", "-n", "3", "--dry-run")
    assert server.received[0].dry_run
    assert said.out.splitlines() == [
        "start            2030-03-17T17:46:40+00:00",
        "end              2030-03-17T18:46:40+00:00",
        "for              1h00m",
        "number of nodes  3",
        "nodes            n[1-3]",
        "each gives       2 cpus",
        "account          lab/ann",
        "also used by     bob, the group lecture",
    ]


def test_a_dry_run_says_why_it_cannot_be_and_which_start_would_do(state, shell):
    plan = ReservationPlan(
        *("lab/ann", START_S, START_S + HOUR_S, 3, None, (), ""),
        reasons=(Why("machine-busy", "3 machines at once", "2 of 9 machines could give one"),),
        earliest_wall_s=START_S + HOUR_S,
    )
    with double(state, lambda _: plan):
        said = shell("reserve", "-s", "+1h", "-d", "1h", "-n", "3", "--dry-run")
    assert said.code == 0
    why, earliest = said.out.splitlines()[-2:]
    assert why.startswith("cannot be had    the machine is busy: needs 3 machines at once; 2 of 9")
    assert earliest == "earliest start   2030-03-17T18:46:40+00:00"


def test_a_refusal_has_its_reasons_and_exit_code_3(state, shell):
    def refuse(_):
        raise Refused("cannot-be-reserved", "these nodes cannot be had: n1 is busy", "-s 12:00")

    with double(state, refuse):
        said = shell("reserve", "-s", "+1h", "-d", "1h", "-n", "3")
    assert said.code == ExitCode.REFUSED
    assert said.out == ""
    assert said.err == "iriai: these nodes cannot be had: n1 is busy; -s 12:00\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("-d 1h -n 1", "there is no start"),
        ("-s now -n 1", "there is no end"),
        ("-s now -n 1 -d 1h -e 17:00", "--end and --duration are two ends"),
        ("-s soon -d 1h -n 1", "--start: 'soon' is not a time"),
        ("-s 9:00 -e late -n 1", "--end: 'late' is not a time"),
        ("-s 2030-01-01T09:00+25:00 -d 1h -n 1", "--start"),
        ("-s 2030-01-01T09:00 -e 2030-01-01T09:00 -n 1", "is not after the start"),
        ("-s 2030-01-02 -e 2030-01-01 -n 1", "is not after the start"),
        ("-s 2020-01-01 -d 1h -n 1", "is over"),
        ("-s 2020-01-01 -e 2020-02-01 -n 1", "is over"),
        ("-s now -d 0 -n 1", "--duration: '0' is not a duration"),
        ("-s now -d -1h -n 1", "--duration"),
        ("-s now -d 1h -n 1 --memory lots", "--memory: 'lots' is not a size"),
        ("-s now -d 1h -n 1 --resource licence", "'licence' is not a resource"),
    ],
)
def test_what_cannot_be_is_refused_before_a_daemon_is_asked(state, shell, words, why):
    said = shell("reserve", *words.split())
    assert said.code == ExitCode.USAGE
    assert why in said.err
    assert said.out == ""


@pytest.mark.parametrize("words", ["-s now -d 1h", "-s now -d 1h -n two", "-s now -d 1h -n 1.5"])
def test_how_many_nodes_has_to_be_a_number(state, shell, words):
    said = shell("reserve", *words.split())
    assert said.code == ExitCode.USAGE
    assert "nodes" in said.err


def test_a_zone_that_is_none_is_refused(state, shell):
    said = shell("reserve", "-s", "9:00 Europe/Atlantis", "-d", "1h", "-n", "1")
    assert said.code == ExitCode.USAGE
    assert "there is no such zone" in said.err


# --- series --------------------------------------------------------------------------------------

SERIES = ReservedSeries(
    "ume-r7", "FREQ=WEEKLY", "UTC", START_S, START_S + HOUR_S, "ume-r7.1", ("n1", "n2", "n3")
)


@pytest.mark.parametrize(
    ("start", "zone"),
    [("2030-01-07T09:00 Europe/Berlin", "Europe/Berlin"), ("2030-01-07T09:00", "UTC")],
)
def test_a_series_is_in_the_zone_that_its_start_names_or_in_that_of_the_client(
    state, shell, start, zone
):
    request = sent(*(state, shell), "--every", "weekly", "-s", start, "-d", "2h", "-n", "3")
    assert (request.every, request.zone) == ("weekly", zone)
    assert request.start_wall_s == parse_wall_time(start, 0.0)


def test_without_a_rule_no_zone_is_sent(state, shell):
    assert sent(state, shell, "-s", "+1h", "-d", "2h", "-n", "3").zone == ""


def test_a_series_needs_a_zone_with_a_name(state, shell, monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST")
    said = shell("reserve", "--every", "weekly", "-s", "9:00", "-d", "1h", "-n", "1")
    assert said.code == ExitCode.USAGE
    assert "has no name that is known; name one, as -s 'monday 9:00 Europe/Berlin'" in said.err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "ume-r7.1 is on 3 nodes: n[1-3]"),
        ({"first": "", "nodes": ()}, "occurrences are made when the horizon reaches them"),
        (
            {"nodes": (), "reasons": (Why("machine-busy", "3 nodes", "there are 2"),)},
            "ume-r7.1 could not be had: needs 3 nodes; there are 2; the series goes on",
        ),
    ],
)
def test_the_id_of_a_series_stands_alone_and_its_first_occurrence_is_a_remark(
    state, shell, changes, told
):
    with double(state, lambda _: replace(SERIES, **changes)):
        said = shell("reserve", "--every", "weekly", "-s", "+1h", "-d", "1h", "-n", "3")
    assert said.out == "ume-r7\n"
    times = "2030-03-17T17:46:40+00:00 to 2030-03-17T18:46:40+00:00"
    assert said.err == f"iriai: FREQ=WEEKLY in UTC, first {times}; {told}\n"

"""`iriai reservation modify`: what is asked for, and what is shown."""

from __future__ import annotations

import time

import pytest

from iriai.client.wall_time import parse_wall_time
from iriai.model.problem import ExitCode, Refused
from iriai.wire.reservations import (
    AskReservations,
    ModifyReservation,
    ReservationPlan,
    ReservationRow,
    ReservationTable,
    Reserved,
)
from tests.client.double import double

NINE_S = parse_wall_time("2030-01-01T09:00+00:00", 0.0)
HOUR_S = 3600.0
ROW = ReservationRow("ume-r7", "confirmed", NINE_S, NINE_S + HOUR_S, 2, ("n1", "n2"))
ANSWER = Reserved("ume-r7", NINE_S, NINE_S + 2 * HOUR_S, ("n1", "n2"))


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def answers(asking):
    return ReservationTable((ROW,)) if isinstance(asking.body, AskReservations) else ANSWER


def sent(state, shell, *words: str) -> ModifyReservation:
    """What is asked of the daemon."""
    with double(state, answers) as server:
        shell("reservation", "modify", "ume-r7", *words)
    return server.received[-1]


def test_only_what_is_given_changes(state, shell):
    request = sent(state, shell, "-n", "3", "--cpus", "8", "--for", "ann, bob")
    assert request == ModifyReservation("ume-r7", nodes=3, cpus=8, use_by=("ann", "bob"))


def test_what_is_given_as_nothing_is_taken_away(state, shell):
    request = sent(state, shell, "--for", "", "--requirements", "", "--whole")
    assert (request.use_by, request.requirements, request.is_whole) == ((), "", True)


@pytest.mark.parametrize(
    ("words", "start_s", "end_s"),
    [
        (("-s", "2030-01-01T10:00"), NINE_S + HOUR_S, None),
        (("-e", "12:00"), None, NINE_S + 3 * HOUR_S),
        (("-d", "90m"), None, NINE_S + 1.5 * HOUR_S),
        (("-s", "2030-01-01T10:00", "-d", "30m"), NINE_S + HOUR_S, NINE_S + 1.5 * HOUR_S),
        (("-s", "2030-01-01T10:00", "-e", "+3h"), NINE_S + HOUR_S, NINE_S + 4 * HOUR_S),
    ],
)
def test_times_are_counted_from_its_start(state, shell, words, start_s, end_s):
    request = sent(state, shell, *words)
    assert (request.start_wall_s, request.end_wall_s) == (start_s, end_s)


def test_two_ends_are_refused(state, shell):
    with double(state, answers):
        said = shell("reservation", "modify", "ume-r7", "-e", "12:00", "-d", "1h")
    assert said.code == ExitCode.USAGE
    assert "two ends" in said.err


def test_it_says_what_it_is_now(state, shell):
    with double(state, answers):
        said = shell("reservation", "modify", "ume-r7", "-d", "2h")
    assert said.out == "modified: ume-r7\n"
    assert "on 2 nodes: n[1-2]" in said.err


def test_a_dry_run_shows_what_it_would_be(state, shell):
    plan = ReservationPlan(
        *("lab/ann", NINE_S, NINE_S + HOUR_S, 3, None, (), ""), nodes=("n1", "n2", "n3")
    )
    with double(state, lambda _: plan) as server:
        said = shell("reservation", "modify", "ume-r7", "-n", "3", "--dry-run")
    assert server.received[-1].dry_run
    assert "n[1-3]" in said.out


def test_what_cannot_be_had_is_refused(state, shell):
    def refuse(_):
        raise Refused("cannot-be-reserved", "these nodes cannot be had", "it stays as it was")

    with double(state, refuse):
        said = shell("reservation", "modify", "ume-r7", "-n", "3")
    assert said.code == ExitCode.REFUSED
    assert "stays as it was" in said.err

"""Reservations of a real machine: what they keep away, what runs inside, and their end."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest

from iriai.client.wall_time import iso_text
from iriai.model.problem import ExitCode, NotFound, Refused
from iriai.wire.reservations import AskReservations, EndReservation, Reserve, Reserved
from tests.endtoend.cluster import Cluster
from tests.endtoend.installation import Installation, installed
from tests.support.waiting import until

CONFIGURATION = """
[machine]
cpus = 2
[jobs]
kill_grace_s = 1
"""
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, CONFIGURATION) as installation:
        yield installation


@pytest.fixture
def client(machine):
    with machine.client() as client:
        yield client
    with machine.client() as client:  # of a daemon that was killed the first has no connection
        for row in client.ask(AskReservations()).rows:
            client.ask(EndReservation(row.id))
        for row in client.jobs():
            with suppress(Refused):  # it has ended meanwhile
                client.cancel([row.id])
        until(lambda: not client.jobs(), "the end of all jobs")


def reserved(client, in_s: float = 0.0, for_s: float = HOUR_S, **fields) -> str:
    """The id of a new reservation of this machine."""
    start_s = time.time() + in_s
    answer = client.ask(Reserve(start_s, start_s + for_s, 1, **fields))
    assert isinstance(answer, Reserved)
    return answer.id


def submitted(machine: Installation, client, *command: str, **fields) -> str:
    words = command or ("true",)
    return client.submit(machine.draft(*words, output=os.devnull, **fields)).id


def rules(client, job: str) -> list[str]:
    return [each.rule for each in client.why(job).reasons]


def is_running(client, job: str) -> bool:
    return client.show(job).row.state == "running"


def test_what_is_reserved_is_for_jobs_inside_until_it_is_given_back(machine, client):
    reservation = reserved(client)
    inside = submitted(machine, client, reservation=reservation)
    assert client.wait([inside])[0].exit_code == 0
    assert client.show(inside).reservation == reservation
    beside = submitted(machine, client)
    until(lambda: "reserved-ahead" in rules(client, beside), "the reason of the job beside it")
    said = machine.call("reservation", "end", reservation)
    assert said.stdout == f"ended: {reservation}\n"
    assert client.wait([beside])[0].exit_code == 0
    [row] = client.ask(AskReservations(id=reservation)).rows
    assert (row.state, row.cause) == ("over", "ended")


@pytest.mark.parametrize(
    "line", ["#SBATCH --reservation={}", "#PBS -W x=rsvid:{}", "#PBS -l advres={}"]
)
def test_a_script_that_names_its_reservation_runs_in_it(machine, client, line):
    reservation = reserved(client)
    path = machine.directory / "inside.sh"
    path.write_text(f"#!/bin/sh\n{line.format(reservation)}\ntrue\n")
    path.chmod(0o644)
    said = machine.call("submit", "--chdir", "/", "--output", os.devnull, str(path))
    assert said.returncode == 0, said.stderr
    job = said.stdout.split()[-1]
    assert client.wait([job])[0].exit_code == 0
    assert client.show(job).reservation == reservation
    client.ask(EndReservation(reservation))


def test_a_part_of_the_machine_leaves_the_rest_to_others(machine, client):
    reservation = reserved(client, cpus=1)
    assert client.wait([submitted(machine, client, cpus=1)])[0].exit_code == 0
    wide = submitted(machine, client, reservation=reservation, cpus=2)
    until(lambda: rules(client, wide), "a reason of the job that is too wide")
    assert not is_running(client, wide)


def test_before_a_reservation_what_ends_in_time_or_gives_way_starts(machine, client):
    reservation = reserved(client, in_s=1800.0)
    short = submitted(machine, client, time_limit_s=600.0)
    assert client.wait([short])[0].exit_code == 0
    leaves = submitted(machine, client, "sleep", "600", time_limit_s=HOUR_S, evictable=True)
    open_ended = submitted(machine, client, "sleep", "600")
    for job in (leaves, open_ended):
        until(lambda job=job: is_running(client, job), f"the start of {job}")
    client.cancel([leaves, open_ended])
    stays = submitted(machine, client, evictable=False)
    until(lambda: "reserved-ahead" in rules(client, stays), "the reason of the job that stays")
    inside = submitted(machine, client, reservation=reservation)
    until(lambda: "not-reserved" in rules(client, inside), "the reason of the job inside")


def test_what_waits_inside_is_cancelled_at_the_end_or_waits_on(machine, client):
    reservation = reserved(client, in_s=1800.0)
    job = submitted(machine, client, reservation=reservation)
    waits_on = submitted(machine, client, reservation=reservation, or_queue=True)
    client.ask(EndReservation(reservation))
    assert client.wait([job])[0].cause == "cancelled"
    assert reservation in client.show(job).note
    assert client.wait([waits_on])[0].exit_code == 0


def test_a_shell_runs_inside(machine, client):
    reservation = reserved(client)
    said = machine.call("run", "--reservation", reservation, "--", "echo", "inside")
    assert (said.returncode, said.stdout) == (0, "inside\n")


def test_a_reservation_is_there_after_a_crash(machine, client):
    reservation = reserved(client, in_s=1800.0)
    machine.kill("daemon")
    until(machine.runs_tasks, "the daemon to be back")
    with machine.client() as again:
        [row] = again.ask(AskReservations(id=reservation)).rows
        assert (row.state, row.nodes) == ("confirmed", (again.welcome.home,))
        stays = submitted(machine, again, evictable=False)
        until(lambda: "reserved-ahead" in rules(again, stays), "the reason of the job that stays")
        again.cancel([stays])
        again.ask(EndReservation(reservation))


def test_the_earliest_follows_what_is_reserved(machine, client):
    first = reserved(client, in_s=600.0)
    now_s = time.time()
    later = client.ask(Reserve(now_s, now_s + HOUR_S, 1, is_earliest=True))
    assert isinstance(later, Reserved)
    [row] = client.ask(AskReservations(id=first)).rows
    assert row.end_wall_s < later.start_wall_s < row.end_wall_s + 60


def test_what_cannot_be_had_is_refused_with_the_start_that_would_do(machine, client):
    taken = reserved(client, in_s=600.0)
    start = iso_text(time.time() + 900.0)
    said = machine.call("reserve", "-s", start, "-d", "1h", "-n", "1")
    assert said.returncode == ExitCode.REFUSED
    assert taken in said.stderr
    assert "the earliest start is" in said.stderr
    assert said.stdout == ""
    said = machine.call("reserve", "-s", start, "-d", "1h", "-n", "2")
    assert said.returncode == ExitCode.REFUSED
    said = machine.call("reserve", "-s", start, "-d", "1h", "-n", "1", "--dry-run")
    assert said.returncode == 0
    assert "earliest start" in said.stdout


def test_commands_show_and_give_back(machine, client):
    said = machine.call("reserve", "-s", "+1h", "-d", "2h", "-n", "1", "--cpus", "1")
    assert said.returncode == 0, said.stderr
    reservation = said.stdout.strip()
    listed = machine.call("reservations").stdout
    assert listed.count(reservation) == 2  # in the table and in the chart
    shown = machine.call("reservation", "show", reservation).stdout
    for words in ("number of nodes  1", "each gives       1 cpu", "state            confirmed"):
        assert words in shown
    said = machine.call("reservation", "end", reservation)
    assert said.returncode == ExitCode.REFUSED
    assert "not open" in said.stderr
    said = machine.call("reservation", "cancel", reservation)
    assert said.stdout == f"cancelled: {reservation}\n"
    assert machine.call("reservation", "cancel", reservation).returncode == ExitCode.REFUSED


def test_one_that_is_not_there_is_told_so(machine, client):
    home = client.welcome.home
    with pytest.raises(NotFound):
        client.ask(AskReservations(id=f"{home}-r999"))
    with pytest.raises(NotFound):
        client.ask(EndReservation(f"{home}-r999"))
    with pytest.raises(Refused, match="there is no reservation"):
        submitted(machine, client, reservation=f"{home}-r999")
    with pytest.raises(Refused, match="is a reservation of nowhere"):
        submitted(machine, client, reservation="nowhere-r1")


def test_several_machines_are_had_at_one_time_or_none(person):
    cluster = Cluster(person)
    try:
        cluster.start("b1 b2 b3")
        with cluster.front.client() as client:
            now_s = time.time()
            with pytest.raises(Refused, match="4 machines at once"):
                client.ask(Reserve(now_s, now_s + HOUR_S, 4))
            answer = client.ask(Reserve(now_s, now_s + HOUR_S, 2))
            assert isinstance(answer, Reserved)
            assert len(answer.nodes) == 2
            inside = submitted(cluster.front, client, reservation=answer.id, ranks="4", nodes=2)
            assert client.wait([inside])[0].exit_code == 0
            machines = {row.machine for row in client.show(inside, ranks=True).seats}
            assert machines == {*answer.nodes}
            beside = submitted(cluster.front, client)
            client.wait([beside])
            assert client.show(beside).attempts[0].machine not in answer.nodes
            client.ask(EndReservation(answer.id, is_open_only=True))
            wide = Reserve(now_s, now_s + HOUR_S, 3, dry_run=True)
            nodes = ("b1", "b2", "b3")  # the broker hears from them that they are free again
            until(lambda: client.ask(wide).nodes == nodes, "all to be free")
            every = client.ask(Reserve(now_s, now_s + HOUR_S, 3))
            assert isinstance(every, Reserved)
            assert every.nodes == nodes
    finally:
        cluster.stop()


def test_one_is_changed_or_stays_as_it_was(machine, client):
    reservation = reserved(client, cpus=1)
    inside = submitted(machine, client, "sleep", "600", reservation=reservation)
    until(lambda: is_running(client, inside), "the start inside")
    said = machine.call("reservation", "modify", reservation, "--cpus", "2", "-d", "3h")
    assert said.stdout == f"modified: {reservation}\n", said.stderr
    [row] = client.ask(AskReservations(id=reservation)).rows
    assert (row.end_wall_s - row.start_wall_s, row.resources) == (3 * HOUR_S, {"cpus": 2})
    assert is_running(client, inside)
    said = machine.call("reservation", "modify", reservation, "-n", "2")
    assert said.returncode == ExitCode.REFUSED
    assert "stays as it was" in said.stderr
    beside = submitted(machine, client)
    until(lambda: "reserved-ahead" in rules(client, beside), "the reason of the job beside it")
    machine.kill("daemon")
    until(machine.runs_tasks, "the daemon to be back")
    with machine.client() as again:
        [kept] = again.ask(AskReservations(id=reservation)).rows
        assert kept == row
        said = machine.call("reservation", "modify", reservation, "--cpus", "1")
        assert said.returncode == 0, said.stderr
        assert again.wait([beside])[0].exit_code == 0
        again.cancel([inside])
        again.ask(EndReservation(reservation))

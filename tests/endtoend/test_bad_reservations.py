"""What people get wrong with reservations, through the command line: one line with the reason and
the nearest thing that would do, the right exit code, and nothing is reserved.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator

import pytest

from iriai.client.wall_time import iso_text
from iriai.model.problem import ExitCode
from iriai.wire.reservations import AskReservations, EndReservation
from tests.endtoend.installation import CALL_WAIT_S, Installation, ended_afterwards, installed
from tests.endtoend.network import Network
from tests.endtoend.test_bad_input import complaint
from tests.support.people import TestPerson

CONFIGURATION = """
[machine]
cpus = 4
[reservations]
count_max = 2
"""
USAGE, REFUSED = ExitCode.USAGE, ExitCode.REFUSED
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def machine(person) -> Iterator[Installation]:
    with installed(person, CONFIGURATION) as installation:
        yield installation


@pytest.fixture
def reserved(machine) -> Iterator[str]:
    """A reservation of the machine, from an hour ahead on for an hour."""
    yield reserve(machine, "-s", "+1h", "-d", "1h", "-n", "1")
    with machine.client() as client:
        for row in client.ask(AskReservations()).rows:
            client.ask(EndReservation(row.id))


def reserve(machine: Installation, *words: str) -> str:
    said = machine.call("reserve", *words)
    assert said.returncode == 0, said.stderr
    return said.stdout.strip()


def live(machine: Installation) -> list[str]:
    with machine.client() as client:
        return [row.id for row in client.ask(AskReservations()).rows]


AN_HOUR = ("-d", "1h", "-n", "1")
ASKED = [
    # In the past, or ending before it starts.
    (("-s", "2020-01-01", *AN_HOUR), USAGE, ("is over", "a time that lies ahead")),
    (
        ("-s", "tomorrow 9:00", "-e", "tomorrow 8:00", "-n", "1"),
        USAGE,
        ("is not after the start", "give a later end, or -d DURATION"),
    ),
    # More nodes than exist or match.
    (("-s", "+1h", "-d", "1h", "-n", "0"), USAGE, ("0 nodes", "1 to 4,096")),
    (("-s", "+1h", "-d", "1h", "-n", "5000"), USAGE, ("5000 nodes", "1 to 4,096")),
    (
        ("-s", "+1h", "-d", "1h", "-n", "2"),
        REFUSED,
        ("needs 2 machines at once; 1 of 1 machines could give one", "ask for fewer nodes"),
    ),
    (
        ("-s", "+1h", *AN_HOUR, "--cpus", "8"),
        REFUSED,
        ("needs 8 cpus; the machine has 4 cpus", "less of each"),
    ),
    (
        ("-s", "+1h", *AN_HOUR, "--requirements", "Cpus > 100"),
        REFUSED,
        ("needs Cpus > 100; Cpus is 4",),
    ),
    (("-s", "+1h", *AN_HOUR, "--requirements", "Cpus >"), USAGE, ("--requirements",)),
    # Over a limit.
    (("-s", "+1h", "-d", "30s", "-n", "1"), USAGE, ("for 30s", "ask for 1m00s to 31d00h")),
    (("-s", "+1h", "-d", "40d", "-n", "1"), USAGE, ("for 40d00h", "ask for 1m00s to 31d00h")),
    (("-s", "+20d", *AN_HOUR), REFUSED, ("start in 20d00h", "at most 14d00h ahead")),
    # A zone that is none, and times that are none or two.
    (
        ("-s", "tomorrow 9:00 Europe/Atlantis", *AN_HOUR),
        USAGE,
        ("there is no such zone", "'9:00 Europe/Berlin'"),
    ),
    (("-s", "yesterday", *AN_HOUR), USAGE, ("'yesterday' is not a time", "'tomorrow 9:00'")),
    (
        ("-s", "2027-03-28 2:30 Europe/Berlin", *AN_HOUR),
        USAGE,
        ("is left out", "2027-03-28T01:30+01:00 or 2027-03-28T03:30+02:00"),
    ),
    (
        ("-s", "2027-10-31 2:30 Europe/Berlin", *AN_HOUR),
        USAGE,
        ("comes twice", "2027-10-31T02:30+02:00 or 2027-10-31T02:30+01:00"),
    ),
    (
        ("-s", "+1h", *AN_HOUR, "--for", "nobody-there"),
        REFUSED,
        ("neither a user nor a group", "name users of this machine"),
    ),
]


@pytest.mark.parametrize(("words", "code", "told"), ASKED)
def test_what_cannot_be_reserved(machine, words, code, told):
    line = complaint(machine.call("reserve", *words), code)
    for each in told:
        assert each in line
    assert live(machine) == []


def test_a_time_that_another_has(machine, reserved):
    line = complaint(machine.call("reserve", "-s", "+90m", *AN_HOUR), REFUSED)
    assert f"{reserved} has it" in line
    found = re.search(r"use -s (\S+), or --earliest", line)
    assert found is not None
    assert reserve(machine, "-s", found[1], *AN_HOUR) in live(machine)


def test_one_more_than_an_account_may_have(machine, reserved):
    reserve(machine, "-s", "+4h", *AN_HOUR)
    line = complaint(machine.call("reserve", "-s", "+6h", *AN_HOUR), REFUSED)
    assert "at most 2 reservations that are not over" in line
    assert "cancel one of them" in line


CHANGED = [
    (("-n", "2"), REFUSED, ("1 of 1 machines could give one", "it stays as it was")),
    (("--cpus", "8"), REFUSED, ("the machine has 4 cpus", "it stays as it was")),
    (("-s", "+20d"), REFUSED, ("start in 20d00h", "at most 14d00h ahead")),
    (("-e", "2020-01-01"), USAGE, ("less than nothing", "ask for 1m00s to 31d00h")),
    (("-d", "10s"), USAGE, ("for 10s", "ask for 1m00s to 31d00h")),
    ((), USAGE, ("give what is to change",)),
]


@pytest.mark.parametrize(("words", "code", "told"), CHANGED)
def test_a_modification_that_cannot_be(machine, reserved, words, code, told):
    before = as_shown(machine, reserved)
    line = complaint(machine.call("reservation", "modify", reserved, *words), code)
    for each in told:
        assert each in line
    assert as_shown(machine, reserved) == before


def test_a_modification_that_no_longer_fits(machine, reserved):
    other = reserve(machine, "-s", "+3h", *AN_HOUR)
    before = as_shown(machine, reserved)
    line = complaint(machine.call("reservation", "modify", reserved, "-d", "3h"), REFUSED)
    assert f"{other} has it" in line
    assert "it stays as it was" in line
    assert as_shown(machine, reserved) == before
    found = re.search(r"use -s (\S+)", line)
    assert found is not None
    said = machine.call("reservation", "modify", reserved, "-s", found[1], "-d", "3h")
    assert said.returncode == 0, said.stderr


def as_shown(machine: Installation, reservation: str) -> str:
    said = machine.call("reservation", "show", reservation)
    assert said.returncode == 0, said.stderr
    return said.stdout


@pytest.mark.root
@pytest.mark.parametrize("command", ["submit", "run"])
def test_a_job_of_a_user_who_is_not_named(machine, people, reserved, command):
    words = (command, "--reservation", reserved, "--", "true")
    line = complaint(machine.call(*words, person=people.bob), REFUSED)
    assert f"{reserved} is not for {people.bob.name}" in line
    assert f"ask {people.ann.name} to reserve it for you as well" in line


@pytest.mark.root
@pytest.mark.parametrize("words", [("cancel",), ("end",), ("modify", "-d", "2h")])
def test_another_s_reservation_is_not_changed(machine, people, reserved, words):
    said = machine.call("reservation", words[0], reserved, *words[1:], person=people.bob)
    line = complaint(said, ExitCode.NOT_ALLOWED)
    assert f"{reserved} belongs to {people.ann.name}" in line
    assert live(machine) == [reserved]


@pytest.mark.parametrize("command", ["submit", "run"])
def test_a_job_in_a_reservation_that_is_over(machine, reserved, command):
    assert machine.call("reservation", "cancel", reserved).returncode == 0
    line = complaint(machine.call(command, "--reservation", reserved, "--", "true"), REFUSED)
    assert f"{reserved} is over: cancelled" in line
    assert "into another one, or into none" in line


def test_modifying_one_that_is_over(machine, reserved):
    assert machine.call("reservation", "cancel", reserved).returncode == 0
    for length in ("1h", "2h"):
        line = complaint(machine.call("reservation", "modify", reserved, "-d", length), REFUSED)
        assert f"{reserved} is over: cancelled" in line


def test_a_reservation_that_there_is_not(machine, reserved):
    home, _, number = reserved.rpartition("-r")
    unknown = f"{home}-r{int(number) + 1}"
    line = complaint(machine.call("submit", "--reservation", unknown, "--", "true"), REFUSED)
    assert f"there is no reservation {unknown}" in line
    assert "list them with iriai reservations" in line
    shown = machine.call("reservation", "show", unknown)
    assert "list them with" in complaint(shown, ExitCode.NOT_FOUND)


def test_one_that_is_not_open_is_not_ended(machine, reserved):
    line = complaint(machine.call("reservation", "end", reserved), REFUSED)
    assert "is not open: it is confirmed" in line
    assert f"iriai reservation cancel {reserved}" in line
    assert live(machine) == [reserved]


# --- two users at once ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network(people) -> Iterator[Network]:
    """Three homes, each of which speaks for everybody."""
    made = Network(people.ann)
    for name in ("ume", "take", "matsu"):
        made.add(name)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.mark.root
@pytest.mark.parametrize("nodes", [1, 3])
def test_of_two_users_after_the_last_nodes_at_once_one_gets_them(network, people, nodes):
    """The other hears why, and a start that will do: none of them gets a part."""
    ume, take, _ = network.machines.values()
    for ahead_h in (1, 4, 7, 10):
        start = iso_text(time.time() + (ahead_h + 12 * nodes) * HOUR_S)
        if nodes < 3:
            reserve(ume, "-s", start, "-d", "1h", "-n", str(3 - nodes))
        words = ("reserve", "-s", start, "-d", "1h", "-n", str(nodes))
        with ended_afterwards() as asking:
            asking += [
                begun(machine, person, *words)
                for machine, person in ((ume, people.ann), (take, people.bob))
            ]
            said = [
                subprocess.CompletedProcess(words, each.wait(CALL_WAIT_S), *each.communicate())
                for each in asking
            ]
        assert sorted(each.returncode for each in said) == [0, REFUSED], said
        line = complaint(next(each for each in said if each.returncode), REFUSED)
        found = re.search(r"use -s (\S+), or --earliest", line)
        assert found is not None, line
        reserve(take, "-s", found[1], "-d", "1h", "-n", str(nodes))
    with ume.client() as client:
        for row in client.ask(AskReservations()).rows:
            assert len(row.nodes) == row.node_count


def begun(machine: Installation, person: TestPerson, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        machine.command(*words, person=person),
        cwd=machine.work,
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

"""`nodes`, `drain`, `resume`, options of `up`: what is sent, printed, and refused."""

import pytest
from msgspec.structs import replace

from iriai.model.paths import StatePaths
from iriai.model.problem import NotFound, Refused
from iriai.wire.machines import Drain, Forget, NodeRow, NodeTable, Resume
from iriai.wire.requests import PROTOCOL_VERSION, Done, JobList, Welcome
from tests.client.double import Asking, double

UP = NodeRow("b1", "up", "", 4, 3, 8 << 30, 6 << 30, 0, 0, 1.25, 0.5, 1.0, 1, "up")
DRAINED = NodeRow("b2", "drained", "ann: new disk", 4, 4, 8 << 30, 8 << 30, 0, 0, 0, 0, 2, 0, "up")


def test_the_machines_are_listed(state, shell):
    with double(state, lambda _: NodeTable((UP, DRAINED))):
        said = shell("nodes")
        document = shell("nodes", "--json").document
    assert said.code == 0
    _, first, second = said.out.splitlines()
    assert first.split()[:3] == ["b1", "up", "up"]
    assert "3 of 4" in first
    assert "ann: new disk" in second
    assert [row["name"] for row in document["rows"]] == ["b1", "b2"]
    assert document["rows"][0]["foreign_load"] == 0.5


@pytest.mark.parametrize(
    ("part", "by", "shown"),
    [
        (0.5, ("all",), "50 %"),
        (1.0, ("staff", "ann"), "100 % by staff, ann"),
        (0.25, tuple(f"u{each}" for each in range(10)), "25 % by u0, u1, u2, u3, u4, u5, u6, u7 a"),
        (0.0, ("all",), "no"),
        (1.0, (), "no"),
    ],
)
def test_what_an_owner_lets_be_reserved_is_shown(state, shell, part, by, shown):
    limited = replace(UP, reservable=part, reservable_by=by)
    with double(state, lambda _: NodeTable((limited, DRAINED))):
        header, first, second = shell("nodes").out.splitlines()
        document = shell("nodes", "--json").document
    at = header.index("Reservable")
    assert first[at:].startswith(shown)
    assert second[at:].startswith("  ")
    assert [row["reservable"] for row in document["rows"]] == [part, 1.0]
    assert [row["reservable_by"] for row in document["rows"]] == [[*by], ["all"]]


def test_where_no_owner_limits_it_nothing_is_shown_of_that(state, shell):
    with double(state, lambda _: NodeTable((UP, DRAINED))):
        assert "Reservable" not in shell("nodes").out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["drain", "b1", "--reason", "new disk"], Drain("b1", "new disk")),
        (["drain", "--reason", "a talk"], Drain("", "a talk")),
        (["resume", "b1"], Resume("b1")),
        (["resume"], Resume("")),
    ],
)
def test_an_operator_takes_a_machine_out_and_back(state, shell, words, expected):
    with double(state, lambda _: Done()) as daemon:
        said = shell(*words)
    assert said.code == 0
    assert daemon.received == [expected]
    assert said.out.startswith(expected.node or "ume")


def test_an_operator_has_a_machine_forgotten(state, shell):
    with double(state, lambda _: Done()) as daemon:
        said = shell("nodes", "--forget", "b2")
        document = shell("nodes", "--forget", "b2", "--json").document
    assert said.code == 0
    assert said.out.startswith("b2 is forgotten")
    assert document == {"node": "b2"}
    assert daemon.received == [Forget("b2")] * 2


def test_a_machine_that_is_there_is_not_forgotten(state, shell):
    def answer(_: Asking):
        raise Refused("linked", "b1 is online, and linked")

    with double(state, answer):
        said = shell("nodes", "--forget", "b1")
    assert said.code == 3
    assert "b1 is online" in said.err


def test_a_drain_needs_a_reason(shell):
    said = shell("drain", "b1")
    assert said.code == 2
    assert "--reason" in said.err


def test_what_a_daemon_says_of_machines_becomes_the_exit_code(state, shell):
    def answer(asking: Asking):
        if isinstance(asking.body, Drain):
            raise NotFound("no-such-machine", "b9 is no machine", "there are: b1")
        raise Refused("not-drained", "b1 is not drained")

    with double(state, answer):
        assert shell("drain", "b9", "--reason", "x").code == 4
        assert shell("resume", "b1").code == 3


def test_a_back_end_is_left_for_its_front_end(state, shell, tmp_path_factory):
    front = tmp_path_factory.mktemp("f")
    socket_path = StatePaths(str(front)).daemon_socket
    back = Welcome(PROTOCOL_VERSION, "b1", str(state), 1, "ann", False, socket_path)
    with double(state, lambda _: NodeTable((UP,)), back) as here:
        with double(front, lambda _: JobList(())) as there:
            assert shell("jobs").code == 0
            assert shell("nodes").code == 0
        said = shell("jobs")
    assert len(there.received) == len(here.received) == 1
    assert said.code == 6
    assert socket_path in said.err


@pytest.mark.long  # the process that it starts refuses
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--parts", "nodes"], "home,broker"),
        (["--parts", "home"], "home,broker"),
        (["--parts", "node"], "--home"),
        (["--parts", "home,broker", "--home", "/x/daemon.sock"], "--parts node"),
        (["--name", "B1"], "small letters"),
        (["--parts", "node", "--home", "/x" * 60], "shorter"),
    ],
)
def test_parts_that_make_no_sense_are_refused(state, shell, words, hint):
    said = shell("up", "--detach", *words)
    assert said.code == 2
    assert hint in said.err
    assert not (state / "state.json").exists()

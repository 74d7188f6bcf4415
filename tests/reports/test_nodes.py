"""The list of machines: how each is reached, what is known of members, and who may be removed."""

import pytest
from msgspec.structs import replace

from iriai.cluster.broker_questions import ClusterReply
from iriai.cluster.member import SeenMember
from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.model.problem import NotFound, Problem, Refused
from iriai.model.reason import Reason, Rule
from iriai.model.reservable import Reservable
from iriai.protocol.messages.members import Member, MemberState
from iriai.reports.nodes import (
    broker_table,
    check_removable,
    node_row,
    own_table,
    tables_of_site,
    with_members,
)
from iriai.wire.machines import NodeTable
from tests.broker.lone_broker import LoneBroker
from tests.node.lone_node import LoneNode
from tests.support.told import HOME, instant


def machine_of(broker: LoneBroker) -> Machine:
    return Machine(HOME, None, Home(HOME, 1, ()), broker.broker)


def seen(name: str, state: MemberState = MemberState.ALIVE, heard_s: float | None = 1.0, **other):
    return SeenMember(Member(name, 1, state, "site", **other), heard_s)


def told(table: NodeTable) -> dict[str, tuple[str, str]]:
    """State and link of each machine."""
    return {row.name: (row.state, row.link) for row in table.rows}


def test_the_broker_lists_the_machines_that_reported():
    broker = LoneBroker()
    broker.tell(*(broker.idle(machine=name) for name in (HOME, "b1")))
    table = broker_table(machine_of(broker), instant(0.0))
    assert told(table) == {HOME: ("up", "here"), "b1": ("up", "up")}
    assert [row.name for row in table.rows if row.is_broker] == [HOME]


def test_it_says_what_owners_let_be_reserved():
    broker = LoneBroker()
    limited = Reservable(0.5, ("staff",))
    broker.tell(broker.idle(machine="b1", reservable=limited), broker.idle(machine="b2"))
    one, other = broker_table(machine_of(broker), instant(0.0)).rows
    assert (one.reservable, one.reservable_by) == (0.5, ("staff",))
    assert (other.reservable, other.reservable_by) == (1.0, ("all",))
    node = LoneNode(reservable=limited).node
    table = own_table(Machine(HOME, node, Home(HOME, 1, ()), None), (0.0, 0.0))
    assert (table.rows[0].reservable, table.rows[0].reservable_by) == (0.5, ("staff",))


def test_a_member_that_runs_no_tasks_is_not_listed():
    machine = Machine("b1", None, Home("b1", 1, ()), None, broker_at="front")
    table = with_members(NodeTable(()), machine, [seen("front", parts=("home", "broker"))], "")
    assert table.rows == ()


def test_a_machine_says_why_nothing_starts_there():
    drained = node_row("b1", "up", Reason(Rule.DRAINED, "to be resumed", "a new disk"))
    assert (drained.state, drained.reason) == ("drained", "a new disk")
    gone = node_row("b1", "down", Reason(Rule.NO_LAUNCHER, "a launcher", "none"))
    assert (gone.state, gone.reason) == ("away", "none")
    assert node_row("b1", "down").reason == "it has no link"


def test_without_an_answer_of_the_broker_only_members_are_known_and_that_is_said():
    machine = Machine("ume", None, Home("ume", 1, ()), None, broker_at="take")
    near = own_table(machine, (0.0, 0.0), "it did not answer")
    assert near == NodeTable(
        (), "it did not answer; of other machines only their membership is known"
    )
    gone = seen("kiku", MemberState.DEAD)
    far = seen("fuji", cluster_name="hill")
    table = with_members(near, machine, [seen("ume", heard_s=None), seen("take"), gone, far], "")
    assert told(table) == {
        "fuji": ("unknown", "up"),
        "kiku": ("away", "down"),
        "take": ("unknown", "up"),
        "ume": ("unknown", "here"),
    }
    rows = {row.name: row for row in table.rows}
    assert [name for name, row in rows.items() if row.is_broker] == ["take"]
    assert rows["ume"].heard_s is None
    assert rows["kiku"].reason == "it does not answer"
    assert "another cluster" in rows["fuji"].reason


def test_what_was_heard_last_counts_whoever_heard_it():
    broker = LoneBroker()
    broker.tell(broker.idle(machine="b1"))
    machine = machine_of(broker)
    table = broker_table(machine, instant(30.0))
    [row] = table.rows
    assert row.heard_s == 30.0
    [merged] = with_members(table, machine, [seen("b1", heard_s=2.0)], "").rows
    assert merged.heard_s == 2.0


def test_clusters_that_did_not_answer_are_named_beside_those_that_did():
    row = node_row("far", "up")
    others = [
        ClusterReply("hill", NodeTable((replace(row, cluster="hill"),)), ""),
        ClusterReply("lake", None, "it is silent"),
    ]
    table = tables_of_site(NodeTable((node_row("near", "up"),), "a note"), others)
    assert [each.name for each in table.rows] == ["far", "near"]
    assert table.note == "a note; cluster lake: it is silent"


@pytest.mark.parametrize(
    ("name", "kind", "code", "words"),
    [
        (HOME, Refused, "own-machine", "is this machine"),
        ("take", Refused, "member", "iriai leave"),
        ("kiku", Refused, "member", "six hours"),
        ("b9", NotFound, "no-such-machine", "its list has: b1"),
    ],
)
def test_who_is_a_member_or_unknown_is_not_removed(name, kind, code, words):
    broker = LoneBroker()
    broker.tell(broker.idle(machine="b1"))
    machine = machine_of(broker)
    members = [seen("take"), seen("kiku", MemberState.DEAD)]
    with pytest.raises(Problem) as caught:
        check_removable(name, machine, members)
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert words in str(caught.value)


def test_what_reported_and_is_no_member_is_removed():
    broker = LoneBroker()
    broker.tell(broker.idle(machine="b2"))
    check_removable("b2", machine_of(broker), [])

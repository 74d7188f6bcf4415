"""When a node starts nothing: drained, its prolog failed, its owner needs it."""

from __future__ import annotations

import pytest

from iriai.machine.operator_requests import take_request
from iriai.model.reason import Rule
from iriai.model.records import Drained, Resumed
from iriai.protocol.messages.effects import (
    AttemptStarted,
    ForgetAttempt,
    LauncherLost,
    LoadMeasured,
    PrologFailed,
)
from iriai.protocol.messages.scheduling import Refusal
from tests.node.lone_node import LoneNode
from tests.support.told import NOTHING_TOLD, WALL_S, attempt, instant, only


def drained(**changes) -> LoneNode:
    node = LoneNode(**changes)
    node.node.drain("new disk", "ann", instant(0.0))
    node.settle()
    return node


def refusal_rule(node: LoneNode, number: int = 9) -> Rule | None:
    answers = node.run(number).home
    return only(answers, Refusal).reason.rule if answers else None


# --- drain ---------------------------------------------------------------------------------------


def test_a_drained_machine_says_who_and_why_and_refuses():
    node = drained()
    assert node.idle.unavailable.rule is Rule.DRAINED
    assert "ann drained it: new disk" in str(node.idle.unavailable)
    assert "iriai resume ume" in str(node.idle.unavailable)
    assert refusal_rule(node) is Rule.DRAINED


def test_what_was_asked_without_a_daemon_is_carried_out_and_stored():
    node = LoneNode()
    take_request(node.node, "new disk", "ann", WALL_S - 60.0, instant(0.0))
    [record] = node.settle().records
    assert (record.reason, record.by) == ("new disk", "ann")
    assert node.idle.unavailable.rule is Rule.DRAINED
    take_request(node.node, None, "bob", WALL_S + 1.0, instant(2.0))
    assert node.settle().records == [Resumed("bob")]


@pytest.mark.parametrize("reason", ["old disk", None])
def test_a_later_drain_stays_whatever_was_asked_before(reason):
    node = drained()
    take_request(node.node, reason, "bob", WALL_S - 1.0, instant(1.0))
    assert node.settle().records == []
    assert "ann drained it: new disk" in str(node.idle.unavailable)


def test_what_runs_goes_on():
    node = LoneNode()
    node.run()
    node.tell(AttemptStarted(attempt(1), WALL_S))
    node.node.drain("new disk", "ann", instant(0.0))
    assert node.settle().others == []
    assert node.node.running() == [attempt(1)]


def test_a_drain_is_durable_and_so_is_its_end():
    node = LoneNode()
    node.node.drain("new disk", "ann", instant(5.0))
    [record] = node.settle().records
    assert record == Drained("new disk", "ann", WALL_S + 5.0)
    again = LoneNode(drained=record, incarnation=2)
    assert again.idle.unavailable.rule is Rule.DRAINED
    assert again.node.resume("eve", instant(6.0))
    assert again.settle().records == [Resumed("eve")]
    assert again.idle.unavailable is None
    assert refusal_rule(again) is None


def test_a_machine_that_is_not_drained_need_not_be_resumed():
    node = LoneNode()
    assert not node.node.resume("ann", instant(0.0))
    assert node.settle() == NOTHING_TOLD


def test_a_drain_is_named_before_a_missing_launcher():
    node = drained()
    node.tell(LauncherLost())
    assert node.idle.unavailable.rule is Rule.DRAINED


# --- prolog --------------------------------------------------------------------------------------


def test_a_prolog_that_fails_refuses_the_attempt_and_drains_the_machine():
    node = LoneNode()
    node.run()
    said = node.tell(PrologFailed(attempt(1), "exit code 1: no scratch disk"))
    [refusal] = said.home
    assert refusal.reason.rule is Rule.DRAINED
    assert "prolog drained it: exit code 1: no scratch disk" in refusal.reason.had
    assert said.others == [ForgetAttempt(attempt(1))]
    assert any(isinstance(record, Drained) for record in said.records)
    assert node.node.claims() == []


def test_a_second_failure_leaves_the_first_reason():
    node = LoneNode()
    node.run(1)
    node.run(2)
    node.tell(PrologFailed(attempt(1), "first"), PrologFailed(attempt(2), "second"))
    assert node.node.drained.reason == "first"


def test_a_failure_of_an_attempt_that_nobody_knows_is_forgotten():
    node = LoneNode()
    said = node.tell(PrologFailed(attempt(1), "late"))
    assert said.others == [ForgetAttempt(attempt(1))]
    assert node.node.drained is None


# --- load ----------------------------------------------------------------------------------------


def measure(node: LoneNode, load: float, foreign: float | None = None):
    return node.tell(LoadMeasured(load, load if foreign is None else foreign))


def test_the_first_load_is_told():
    node = LoneNode()
    assert not node.idle.is_load_known
    measure(node, 0.0)
    assert node.idle.is_load_known


def test_a_load_is_told_when_it_has_moved_and_with_every_report():
    node = LoneNode()
    measure(node, 4.0, 1.0)
    assert (node.idle.load, node.idle.foreign_load) == (4.0, 1.0)
    assert measure(node, 4.3, 1.1) == NOTHING_TOLD
    node.run()
    assert node.idle.load == 4.3
    measure(node, 4.5, 1.1)
    assert node.idle.load == 4.5


def test_small_steps_add_up():
    node = LoneNode()
    measure(node, 1.0, 0.0)
    told = [bool(measure(node, 1.0 + step * 0.06, 0.0).broker) for step in range(1, 9)]
    assert told == [False, False, False, True, False, False, False, True]


@pytest.mark.parametrize(
    ("foreign", "rules"),
    [
        ((8.1,), [Rule.LOAD_ABOVE_THRESHOLD]),
        ((8.0,), [None]),
        ((9.0, 6.5), [Rule.LOAD_ABOVE_THRESHOLD] * 2),
        ((9.0, 6.4), [Rule.LOAD_ABOVE_THRESHOLD, None]),
        ((9.0, 6.4, 8.0), [Rule.LOAD_ABOVE_THRESHOLD, None, None]),
    ],
)
def test_above_the_owner_s_threshold_nothing_starts_until_it_is_a_fifth_below(foreign, rules):
    node = LoneNode(cpus=4, load_max=2.0)
    seen = []
    for number, load in enumerate(foreign):
        measure(node, 20.0, load)
        reason = node.idle.unavailable
        seen.append(reason and reason.rule)
        assert refusal_rule(node, number) is seen[-1]
    assert seen == rules


def test_our_own_load_does_not_count():
    node = LoneNode(cpus=4, load_max=0.5)
    measure(node, 64.0, 0.0)
    assert node.idle.unavailable is None


def test_without_a_threshold_no_load_is_too_much():
    node = LoneNode()
    measure(node, 1000.0)
    assert node.idle.unavailable is None

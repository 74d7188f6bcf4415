"""Why a job waits: the rule that says no, with numbers."""

from __future__ import annotations

import pytest

from iriai.model.reason import Rule
from iriai.model.resources import Resources
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.support.told import instant, job

NOW = instant(0.0)


def why(broker: LoneBroker, number: int = 1):
    reasons = broker.broker.explain(job(number), NOW)
    assert all(reason.needed or reason.had for reason in reasons)
    return reasons


def rules(broker: LoneBroker, number: int = 1) -> list[Rule]:
    return [reason.rule for reason in why(broker, number)]


def test_before_any_machine_has_reported():
    broker = LoneBroker()
    broker.tell(want(1))
    assert rules(broker) == [Rule.MACHINE_UNKNOWN]


def test_what_the_broker_was_not_told_of():
    assert rules(LoneBroker()) == [Rule.STARTING]


def test_no_machine_is_large_enough():
    broker = LoneBroker()
    broker.tell(broker.idle(), want(1, cpus=5))
    [reason] = why(broker)
    assert reason.rule is Rule.NO_MACHINE_LARGE_ENOUGH
    assert (reason.needed, reason.had) == ("5 cpus", "the machine has 4 cpus")


@pytest.mark.parametrize(
    "asked", [Resources(1, 9 << 30), Resources(1, 0, 1), Resources(1, named=(("licence", 5),))]
)
def test_of_any_resource(asked):
    broker = LoneBroker()
    wanted = want(1)
    broker.tell(broker.idle(), wanted.__class__(job(1), wanted.account, asked, None, 1.0, 0.0, 1))
    assert rules(broker) == [Rule.NO_MACHINE_LARGE_ENOUGH]


def test_the_machine_is_busy_and_how_many_wait():
    broker = LoneBroker()
    busy = as_running(want(9, "zoe", cpus=3))
    broker.tell(broker.idle(1, began=(busy,)), want(1, cpus=2, count=5), want(2, "bob", cpus=4))
    reasons = [why(broker, n)[0] for n in (1, 2)]
    assert {reason.rule for reason in reasons} == {Rule.MACHINE_BUSY}
    assert reasons[0].needed == "2 cpus"
    assert reasons[0].had == "1 cpu free; waiting tasks: 6, accounts: 2"


def test_the_account_has_its_cap():
    broker = LoneBroker(cap_cpus=2)
    broker.tell(broker.idle(), want(1, count=3))
    [reason] = why(broker)
    assert reason.rule is Rule.RUNNING_CAP
    assert "runs 2 of at most 2" in reason.had


def test_one_above_the_cap_waits_for_the_cap_and_blocks_nobody():
    broker = LoneBroker(cap_cpus=2)
    said = broker.tell(broker.idle(), want(1, cpus=3, waited_s=9.0), want(2))
    assert [match.job for match in matches(said)] == [job(2)]
    assert rules(broker) == [Rule.RUNNING_CAP]


def test_the_next_of_an_account_at_its_cap_is_behind_the_first():
    broker = LoneBroker(cap_cpus=3)
    mine = as_running(want(9, cpus=2))
    broker.tell(broker.idle(2, began=(mine,)), want(1, cpus=2, waited_s=9.0), want(2, cpus=1))
    assert rules(broker, 1) == [Rule.RUNNING_CAP]
    [reason] = why(broker, 2)
    assert reason.rule is Rule.AHEAD_IN_ACCOUNT
    assert "ume-1" in reason.needed


def test_a_reserved_head_is_named():
    broker = LoneBroker()
    busy = as_running(want(9, "zoe", cpus=2), ends_in_s=50.0)
    broker.tell(broker.idle(2, began=(busy,)))
    broker.tell(want(1, cpus=4))
    broker.tell(want(2, "bob"))
    assert rules(broker, 1) == [Rule.MACHINE_BUSY, Rule.RESERVED]
    [reason] = why(broker, 2)
    assert reason.rule is Rule.RESERVED_HEAD_AHEAD
    assert reason.had == "ume-1: it starts in 50 s at the latest"


def test_a_busy_machine_with_a_head_has_both_reasons():
    broker = LoneBroker()
    busy = as_running(want(9, "zoe", cpus=2), ends_in_s=50.0)
    broker.tell(broker.idle(2, began=(busy,)))
    broker.tell(want(1, cpus=4))
    broker.tell(want(2, "bob", cpus=3))
    assert rules(broker, 2) == [Rule.MACHINE_BUSY, Rule.RESERVED_HEAD_AHEAD]

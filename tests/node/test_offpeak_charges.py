"""Off-peak: each second is charged by the factor that was in force in it."""

from __future__ import annotations

import pytest

from iriai.model.usage import Usage
from iriai.policy.accounting.decay import ChargeRule
from iriai.protocol.messages.effects import AttemptsSampled, AttemptStarted
from iriai.protocol.messages.scheduling import Quiet
from tests.node.lone_node import LoneNode, exited
from tests.support.told import WALL_S, attempt

PAPER = ChargeRule(idle_weight=0.0, gpu_weight=0.0, offpeak_factor=0.5)


def started(**changes) -> LoneNode:
    node = LoneNode(**changes)
    node.run()
    node.tell(AttemptStarted(attempt(1), WALL_S + node.now_s))
    return node


def sample(node: LoneNode, cpu_s: float = 0.0) -> None:
    node.tell(AttemptsSampled(((attempt(1), Usage(cpu_s)),)))


def ended(node: LoneNode, ran_s: float, cpu_s: float = 0.0):
    [end] = node.tell(exited(1, ran_s=ran_s, cpu_s=cpu_s)).home
    return end.result


def quiet_for(node: LoneNode, seconds: int) -> None:
    """Off-peak news each 10 s, and samples as well."""
    for _ in range(seconds // 10):
        node.tell(Quiet(True))
        node.wait(10.0)
        sample(node)


def test_off_peak_seconds_cost_the_factor():
    node = started()
    quiet_for(node, 30)
    result = ended(node, 30.0)
    assert result.charge_s == pytest.approx(15.0)
    assert result.factors == ((0.5, 30.0),)


def test_peak_seconds_cost_in_full():
    node = started()
    node.wait(30.0)
    result = ended(node, 30.0)
    assert result.charge_s == pytest.approx(30.0)
    assert result.factors == ((1.0, 30.0),)


def test_work_across_the_change_is_charged_by_parts():
    node = started()
    node.wait(10.0)
    sample(node)
    quiet_for(node, 20)
    node.tell(Quiet(False))
    node.wait(5.0)
    result = ended(node, 35.0)
    assert result.factors == ((1.0, 10.0), (0.5, 20.0), (1.0, 5.0))
    assert result.charge_s == pytest.approx(10.0 + 10.0 + 5.0)


def test_a_change_within_a_slice_splits_it():
    node = started()
    node.wait(4.0)
    node.tell(Quiet(True))
    node.wait(6.0)
    result = ended(node, 10.0)
    assert result.factors == ((1.0, 4.0), (0.5, 6.0))
    assert result.charge_s == pytest.approx(4.0 + 3.0)


def test_news_older_than_a_minute_count_as_peak():
    node = started()
    node.tell(Quiet(True))
    node.wait(100.0)
    result = ended(node, 100.0)
    assert sorted(result.factors) == [(0.5, 60.0), (1.0, 40.0)]
    assert result.charge_s == pytest.approx(70.0)


def test_off_peak_time_before_the_start_is_not_its_own():
    node = LoneNode()
    node.tell(Quiet(True))
    node.wait(50.0)
    node.run()
    node.tell(AttemptStarted(attempt(1), WALL_S + 50.0))
    node.wait(20.0)
    result = ended(node, 20.0)
    assert sorted(result.factors) == [(0.5, 10.0), (1.0, 10.0)]


def test_paper000_s_cpu_seconds_are_sliced_by_when_they_were_used():
    node = started(rule=PAPER)
    node.wait(10.0)
    sample(node, cpu_s=40.0)
    quiet_for(node, 10)
    result = ended(node, 20.0, cpu_s=40.0)
    assert result.charge_s == pytest.approx(40.0)
    busy_later = started(rule=PAPER)
    busy_later.wait(10.0)
    sample(busy_later, cpu_s=0.0)
    busy_later.tell(Quiet(True))
    busy_later.wait(10.0)
    assert ended(busy_later, 20.0, cpu_s=40.0).charge_s == pytest.approx(20.0)


def test_a_free_hour_is_still_measured():
    node = started(rule=ChargeRule(offpeak_factor=0.0))
    quiet_for(node, 30)
    node.tell(Quiet(False))
    node.wait(10.0)
    result = ended(node, 40.0)
    assert result.charge_s == pytest.approx(10.0)


def test_a_restarted_node_charges_no_second_twice_and_none_cheaper():
    before = started()
    quiet_for(before, 20)
    [claim] = before.node.claims()
    assert claim.factors == ((0.5, 20.0),)
    node = LoneNode(claims=[claim], incarnation=2, now_s=30.0)
    result = ended(node, 30.0)
    assert result.factors == ((0.5, 20.0), (1.0, 10.0))
    assert result.charge_s == pytest.approx(10.0 + 10.0)


def test_a_start_that_was_told_a_little_late_is_off_peak_from_its_beginning():
    node = LoneNode()
    node.tell(Quiet(True))
    node.wait(5.0)
    node.run()
    node.wait(0.25)
    node.tell(AttemptStarted(attempt(1), WALL_S + 5.0))
    node.wait(9.75)
    result = ended(node, 10.0)
    assert result.factors == ((0.5, 10.0),)

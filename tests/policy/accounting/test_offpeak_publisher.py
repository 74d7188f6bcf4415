"""What a broker publishes of off-peak."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.policy.accounting.offpeak import PAPER000, PER_CPU, REPEAT_S, OffpeakPublisher

MACHINES = ("b1", "b2")


def news(*loads: float, rule=PER_CPU) -> OffpeakPublisher:
    quiet = OffpeakPublisher(rule)
    for machine, load in zip(MACHINES, loads, strict=False):
        quiet.measured(machine, load, 4)
    return quiet


def test_every_machine_is_told_when_it_begins_and_ends():
    quiet = news(1.0, 2.0)
    assert quiet.publish(MACHINES, 0.0) == ["b1", "b2"]
    assert quiet.is_offpeak
    quiet.measured("b1", 4.0, 4)
    assert quiet.publish(MACHINES, 1.0) == ["b1", "b2"]
    assert not quiet.is_offpeak


def test_it_is_said_again_while_it_lasts_and_not_otherwise():
    quiet = news(1.0)
    quiet.publish(MACHINES, 0.0)
    assert quiet.next_s == REPEAT_S
    assert quiet.publish(MACHINES, REPEAT_S - 1) == []
    assert len(quiet.publish(MACHINES, REPEAT_S)) == 2
    quiet.measured("b1", 4.0, 4)
    quiet.publish(MACHINES, REPEAT_S + 1)
    assert quiet.next_s is None


def test_a_machine_that_comes_while_it_lasts_is_told_at_once():
    quiet = news(1.0)
    quiet.publish(MACHINES, 0.0)
    quiet.measured("b2", 1.0, 4)
    assert quiet.publish(MACHINES, 1.0) == ["b2"]
    assert quiet.publish(MACHINES, 2.0) == []


def test_machines_that_never_measured_do_not_count():
    quiet = OffpeakPublisher(PER_CPU)
    assert quiet.publish(MACHINES, 0.0) == []


def test_a_machine_that_is_away_does_not_count():
    quiet = news(0.0, 4.0)
    quiet.publish(MACHINES, 0.0)
    assert quiet.is_offpeak
    quiet.away("b1")
    assert quiet.publish(MACHINES, 1.0)
    assert not quiet.is_offpeak


def test_paper000_s_definition():
    quiet = news(1.2, 0.7, rule=PAPER000)
    assert quiet.publish(MACHINES, 0.0)
    quiet.measured("b2", 0.9, 4)
    quiet.publish(MACHINES, 1.0)
    assert not quiet.is_offpeak


reports = st.lists(
    st.tuples(st.sampled_from("abcd"), st.floats(0, 100), st.booleans()), max_size=60
)


@given(reports)
def test_the_running_mean_is_the_mean(steps):
    quiet, loads = OffpeakPublisher(PER_CPU), {}
    for machine, load, is_here in steps:
        if is_here:
            quiet.measured(machine, load, 4)
            loads[machine] = PER_CPU.measure(load, 4)
        else:
            quiet.away(machine)
            loads.pop(machine, None)
        assert quiet._sum == pytest.approx(sum(loads.values()), abs=1e-9)

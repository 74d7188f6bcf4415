"""What nobody uses of an open booking is charged to its account; what tasks use, to theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.node.metering import SLICE_S
from iriai.node.queues import NodeQueues
from iriai.policy.accounting.decay import ChargeRule
from iriai.protocol.messages.reservations import Unbook
from iriai.protocol.messages.scheduling import Acknowledge, Counted, Quiet
from tests.node.booking_story import ANN, HOUR, again, begin, confirm, hold, inside, named, until
from tests.node.lone_node import LoneNode, exited
from tests.support.told import attempt

BOB = Account("lab", "bob")
FOR_EVER_S = 1e12
"""A half-life in which nothing fades."""


def reserved(*args, **changes) -> LoneNode:
    """A machine of four cpus, of which ann has reserved all from the first hour to the second."""
    fields = {"half_life_s": FOR_EVER_S}
    for name in ("unused_factor", "no_show_charge", "rule", "queues", "memory_bytes"):
        if name in changes:
            fields[name] = changes.pop(name)
    node = LoneNode(**fields)
    confirm(node, *args, users=("bob",), **changes)
    until(node, HOUR)
    return node


def used_s(node: LoneNode, account: Account = ANN) -> float:
    """What its counter has, in charged seconds."""
    now = node.instant().wall_s
    counters = node.node.ledger._counters
    node.node.ledger.rows()
    return counters[account].at(now) if account in counters else 0.0


def rows(said) -> list[LedgerRow]:
    return [each for each in said.records if isinstance(each, LedgerRow)]


def pass_time(node: LoneNode, to_s: float) -> None:
    """Its alarms ring until then."""
    while node.now_s < to_s:
        until(node, min(to_s, node.now_s + SLICE_S))


def test_an_empty_booking_costs_what_it_keeps_from_its_start_to_its_end():
    node = reserved()
    pass_time(node, 3 * HOUR)
    assert used_s(node) == pytest.approx(4 * HOUR)


def test_nothing_is_charged_before_it_opens():
    node = LoneNode(half_life_s=FOR_EVER_S)
    confirm(node)
    until(node, HOUR - 1.0)
    assert used_s(node) == 0.0


def test_a_hold_costs_nothing():
    node = LoneNode(half_life_s=FOR_EVER_S)
    hold(node, start_s=0.0)
    pass_time(node, HOUR)
    assert used_s(node) == 0.0


def test_it_is_stored_and_told_each_minute():
    node = reserved()
    said = until(node, HOUR + SLICE_S - 1.0)
    assert not rows(said)
    said = until(node, HOUR + SLICE_S)
    assert [each.account for each in rows(said)] == [ANN]
    assert [each.account for each in node.counted.rows] == [ANN]
    assert node.node.bookings.next_s == HOUR + 2 * SLICE_S
    assert any(isinstance(each, Counted) for each in said.broker)


def test_it_costs_no_more_after_it_is_given_back():
    node = reserved()
    until(node, HOUR + 30.0)
    node.wait(10.0)
    node.tell(Unbook(named(), 1))
    assert used_s(node) == pytest.approx(4 * 40.0)
    pass_time(node, 2 * HOUR)
    assert used_s(node) == pytest.approx(4 * 40.0)


def test_a_machine_that_wakes_late_charges_to_the_end_and_no_further():
    node = reserved()
    until(node, 5 * HOUR)
    assert used_s(node) == pytest.approx(4 * HOUR)


def test_a_task_inside_is_charged_to_its_own_account():
    node = reserved()
    node.run(1, inside(user="bob", cpus=3))
    begin(node)
    until(node, HOUR + 100.0)
    node.tell(exited(ran_s=100.0))
    until(node, HOUR + 150.0)
    until(node, HOUR + 210.0)
    assert used_s(node, BOB) == pytest.approx(3 * 100.0)
    assert used_s(node, ANN) == pytest.approx(1 * 100.0 + 4 * 110.0)


def test_a_part_of_a_machine_costs_that_part():
    node = reserved(cpus=1)
    pass_time(node, 2 * HOUR)
    assert used_s(node) == pytest.approx(HOUR)


def test_memory_costs_by_its_weight():
    rule = ChargeRule(memory_weight=0.5)
    node = reserved(rule=rule, memory_bytes=8 << 30)
    pass_time(node, 2 * HOUR)
    assert used_s(node) == pytest.approx((4 + 0.5 * 8) * HOUR)


def test_where_only_cpu_time_counts_it_is_free():
    node = reserved(rule=ChargeRule(idle_weight=0.0, gpu_weight=0.0))
    pass_time(node, 2 * HOUR)
    assert used_s(node) == 0.0


@pytest.mark.parametrize("factor", [0.0, 0.25])
def test_the_factor_of_the_configuration_multiplies_it(factor):
    node = reserved(unused_factor=factor)
    pass_time(node, 2 * HOUR)
    assert used_s(node) == pytest.approx(4 * HOUR * factor)


def test_it_costs_what_a_task_of_queue_0_does():
    node = reserved(queues=NodeQueues(charge_factors={0: 0.5, 1: 0.1}))
    pass_time(node, 2 * HOUR)
    assert used_s(node) == pytest.approx(2 * HOUR)


def test_quiet_time_costs_its_factor():
    node = reserved(rule=ChargeRule(offpeak_factor=0.5))
    until(node, HOUR + 30.0)
    node.tell(Quiet(True))
    until(node, HOUR + 50.0)
    node.tell(Quiet(False))
    until(node, HOUR + SLICE_S)
    assert used_s(node) == pytest.approx(4 * (40.0 + 20.0 * 0.5))


# --- restarts and clocks -------------------------------------------------------------------------


def test_a_daemon_that_was_down_charges_nothing_for_that_time():
    node = reserved()
    pass_time(node, HOUR + 2 * SLICE_S)
    came = again(
        node, now_s=node.now_s + 600.0, ledger=node.node.ledger.rows(), half_life_s=FOR_EVER_S
    )
    assert used_s(came) == pytest.approx(4 * 2 * SLICE_S)
    pass_time(came, 2 * HOUR)
    assert used_s(came) == pytest.approx(4 * (HOUR - 600.0))


def test_after_a_restart_a_task_inside_goes_on_as_such():
    node = reserved()
    node.run(1, inside(user="bob", cpus=3))
    begin(node)
    until(node, HOUR + SLICE_S)
    came = again(node, 1, ledger=node.node.ledger.rows(), half_life_s=FOR_EVER_S)
    until(came, HOUR + 2 * SLICE_S)
    assert used_s(came, ANN) == pytest.approx(1 * 2 * SLICE_S)


def test_a_clock_that_is_put_to_the_end_ends_the_charge_and_gives_none_back():
    node = reserved()
    node.wait(40.0)
    node.step_clock(2 * HOUR)
    until(node, node.now_s)
    assert used_s(node) == pytest.approx(4 * 40.0)
    pass_time(node, node.now_s + HOUR)
    assert used_s(node) == pytest.approx(4 * 40.0)


def test_a_clock_that_is_put_back_charges_for_as_long_as_it_is_kept():
    node = reserved()
    until(node, HOUR + 40.0)
    node.step_clock(-600.0)
    pass_time(node, 2 * HOUR + 600.0)
    pass_time(node, 3 * HOUR)
    assert used_s(node) == pytest.approx(4 * (HOUR + 600.0))


# --- the law -------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 200)),
        st.tuples(st.just("start"), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.integers(0, 300)),
        st.tuples(st.just("step"), st.integers(-100, 100)),
    ),
    max_size=25,
)


@given(STEPS)
def test_what_is_used_and_what_is_not_are_together_the_whole_booking(steps):
    """Down to the second, however tasks come and go; the time of a restart belongs to nobody."""
    node = reserved(length_s=8 * HOUR)
    began_s, away_s, running, number = node.now_s, 0.0, {}, 0
    for what, amount in steps:
        if what == "wait":
            until(node, node.now_s + amount)
        elif what == "start" and Resources(amount).fits_in(node.node.calendar.left_in(named())):
            number += 1
            node.run(number, inside(number, user="bob", cpus=amount))
            begin(node, number)
            running[number] = node.now_s
        elif what == "end" and running:
            ended = sorted(running)[amount % len(running)]
            node.tell(exited(ended, ran_s=node.now_s - running.pop(ended)))
            node.tell(Acknowledge(attempt(ended)))
        elif what == "restart" and not running and node.now_s + node.stepped_s >= HOUR:
            until(node, node.now_s + SLICE_S)
            node = again(
                node,
                now_s=node.now_s + amount,
                stepped_s=node.stepped_s,
                ledger=node.node.ledger.rows(),
                half_life_s=FOR_EVER_S,
            )
            away_s += amount
        elif what == "step":
            node.step_clock(amount)
            node.settle()
    for each, started_s in running.items():
        node.tell(exited(each, ran_s=node.now_s - started_s))
    until(node, node.now_s + SLICE_S)
    whole_s = 4 * (node.now_s - began_s - away_s)
    assert used_s(node, ANN) + used_s(node, BOB) == pytest.approx(whole_s, rel=1e-6)

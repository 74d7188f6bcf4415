"""What a broker counts for an account before its charges have come."""

import pytest
from msgspec.structs import replace

from iriai.broker.usage.usage import UsageAccounts
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.accounting.refunds import with_refund
from iriai.policy.accounting.runtime_estimates import RunTimes
from tests.support.told import attempt

ANN, BEN = Account("lab", "ann"), Account("lab", "ben")
NOW_S = 1_800_000_000.0
ONE_CPU = Resources(cpus=1)


def standings(**runs):
    """Of accounts of lab that ended so many runs, of so many seconds each."""
    told = UsageAccounts(Decay(604_800.0), ChargeRule())
    for user, (count, each_s) in runs.items():
        account = Account("lab", user)
        row = LedgerRow(account, 0.0, 0.0, count, min(count, 8) * each_s)
        told.counted("ume", row, account)
    return told


def test_a_running_task_counts_as_what_it_is_expected_to_cost():
    told = standings(ann=(8, 100.0))
    told.began("a", ANN, Resources(cpus=2), None, urgency=3.0, speed=1.5)
    assert told.usage_s(ANN, NOW_S) == pytest.approx(2 * 100 * 3 * 1.5)

    told.charged("a", 500.0)
    assert told.usage_s(ANN, NOW_S) == pytest.approx(400)
    told.ended("a")
    assert told.usage_s(ANN, NOW_S) == 0


def test_tasks_are_counted_by_queue_and_those_with_several_seats_once():
    told = standings()
    whole = attempt(1)
    for key, queue in ((whole, 2), (whole.seat(4), 2), (7, 0), (8, 2)):
        told.began(key, ANN, ONE_CPU, None, 1.0, speed=1.0, queue=queue)
    assert told.by_queue() == {2: 2, 0: 1}
    told.moved(8, 3)
    told.moved("over", 3)
    assert told.by_queue() == {2: 1, 0: 1, 3: 1}


def test_a_draw_expects_neither_urgency_nor_speed_which_weigh_elsewhere():
    told = standings(ann=(8, 100.0))
    assert told.expected_s(ANN, Resources(cpus=2), None) == 200
    assert told.expected_s(ANN, Resources(cpus=2), 30.0) == 60


def test_a_gpu_is_expected_to_cost_what_it_is_charged():
    told = standings(ann=(8, 100.0))
    assert told.expected_s(ANN, Resources(cpus=1, gpus=1), None) == 900


def test_a_newcomer_is_expected_to_run_as_long_as_the_others():
    assert standings().expected_s(BEN, ONE_CPU, None) == 600
    assert standings(ann=(8, 100.0)).expected_s(BEN, ONE_CPU, None) == 100


def test_what_a_machine_counted_is_forgotten_and_what_others_did_is_not():
    told = standings(ann=(8, 100.0), ben=(8, 300.0))
    told.counted("kiri", LedgerRow(ANN, 5.0, NOW_S, 4, 80.0, 2.0), ANN)
    told.drain_changed()
    for _ in range(2):
        told.forget("kiri", ANN, ANN)
    assert told.usage_s(ANN, NOW_S) == 0.0
    assert told.advance_s(ANN, NOW_S) == 0.0
    assert told.expected_s(ANN, ONE_CPU, None) == standings(
        ann=(8, 100.0), ben=(8, 300.0)
    ).expected_s(ANN, ONE_CPU, None)
    assert told.drain_changed() == [ANN]


def test_a_report_that_comes_again_changes_nothing():
    told = standings(ann=(8, 100.0), ben=(8, 300.0))
    before = told.expected_s(ANN, ONE_CPU, None)
    told.counted("ume", LedgerRow(ANN, 0.0, 0.0, 8, 800.0), ANN)
    told.counted("ume", LedgerRow(ANN, 0.0, 0.0, 2, 10.0), ANN)
    assert told.expected_s(ANN, ONE_CPU, None) == before


def test_runs_on_all_machines_count():
    told = standings(ann=(8, 100.0))
    told.counted("sugi", LedgerRow(ANN, 0.0, 0.0, 8, 8 * 300.0), ANN)
    assert told.expected_s(ANN, ONE_CPU, None) == 200


def test_counters_of_two_groups_may_count_for_one_account():
    told = UsageAccounts(Decay(604_800.0), ChargeRule())
    for group, used_s in (("lab", 30.0), ("art", 12.0)):
        row = LedgerRow(Account(group, "ann"), used_s, NOW_S, 8, 80.0)
        told.counted("ume", row, ANN)
    assert told.usage_s(ANN, NOW_S) == pytest.approx(42)


def returned(charge_s, used_s=100.0):
    """A counter of ann's with so much used, and so much of it returned now."""
    counter = Decay(604_800.0).counter().charged(used_s, 0.0, NOW_S)
    refunds = with_refund((), charge_s, NOW_S, NOW_S, Decay(604_800.0))
    return replace(counter.row(ANN, RunTimes(8, 80.0)), refunds=refunds)


def test_what_was_returned_does_not_count_and_what_runs_still_does():
    told = UsageAccounts(Decay(604_800.0), ChargeRule(), refund_max_s=60.0)
    told.counted("ume", returned(30.0), ANN)
    assert told.usage_s(ANN, NOW_S) == pytest.approx(70.0)
    told.began("a", ANN, ONE_CPU, 10.0, 1.0, speed=1.0)
    assert told.usage_s(ANN, NOW_S) == pytest.approx(80.0)
    assert told.in_draw_s(ANN, NOW_S) == told.usage_s(ANN, NOW_S)


def test_all_machines_together_return_the_bound_of_a_day_at_most():
    told = UsageAccounts(Decay(604_800.0), ChargeRule(), refund_max_s=60.0)
    for machine in ("ume", "take", "kiri"):
        told.counted(machine, returned(30.0), ANN)
    assert told.returned_s(ANN, NOW_S) == pytest.approx(60.0)
    told.forget("ume", ANN, ANN)
    told.forget("take", ANN, ANN)
    assert told.returned_s(ANN, NOW_S) == pytest.approx(30.0)
    assert told.usage_s(ANN, NOW_S) == pytest.approx(70.0)


def test_nothing_is_returned_where_the_bound_is_0():
    told = UsageAccounts(Decay(604_800.0), ChargeRule(), refund_max_s=0.0)
    told.counted("ume", returned(30.0), ANN)
    assert told.usage_s(ANN, NOW_S) == pytest.approx(100.0)


def test_a_machine_that_returns_more_than_was_used_leaves_nothing_and_takes_nothing():
    told = UsageAccounts(Decay(604_800.0), ChargeRule(), refund_max_s=1000.0)
    told.counted("ume", returned(500.0), ANN)
    assert told.usage_s(ANN, NOW_S) == 0.0

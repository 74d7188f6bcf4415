"""The worked example of docs/spec/003-order.md, number by number."""

from random import Random

import pytest

from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule, charge
from iriai.policy.accounting.runtime_estimates import (
    RunSums,
    RunTimes,
    expected_charge,
    mean_run_s,
    provisional_charge,
)
from iriai.policy.draw.order import NO_GROUPS, shares_wanted
from iriai.policy.placement.calendar import is_below
from tests.policy.stories import account, by_name, contender, groups, order

FLOOR_S = 500.0
RULE = ChargeRule()
ANN_JOB_S = expected_charge(RULE.rate(Resources(cpus=2)), 3600, 200)
BEN_JOB_S = expected_charge(RULE.rate(Resources(cpus=1)), None, 100)
CLEO_JOB_S = expected_charge(RULE.rate(Resources(cpus=4)), 50, 200)
ANN_S = 800 + provisional_charge(ANN_JOB_S, accrued_s=200)
CONTENDERS = [
    contender("lab/ann", ANN_S, expected_s=ANN_JOB_S),
    contender("lab/ben", 4000, right=2, urgency=3, expected_s=BEN_JOB_S),
    contender("shop/cleo", 20, expected_s=CLEO_JOB_S),
]
GROUPS = groups(lab=(2, ANN_S + 4000 + 3000), shop=(1, 20))


def rates(name, standings):
    found = by_name(order(name, FLOOR_S).rates(CONTENDERS, standings))
    return [found["lab/ann"], found["lab/ben"], found["shop/cleo"]]


def test_what_the_jobs_are_expected_to_cost():
    assert (ANN_JOB_S, BEN_JOB_S, CLEO_JOB_S) == (400, 100, 200)


def test_ann_counts_with_her_running_task():
    assert ANN_S == 1000


def test_one_run_of_a_second_where_all_took_201():
    own = RunSums().replaced(RunTimes(), RunTimes(runs=1, run_s=1.0))
    everybody = RunSums(runs=200, recent_runs=10, recent_s=2010.0)
    assert mean_run_s(own, everybody) == 161


def test_shares_wanted():
    assert by_name(shares_wanted(CONTENDERS, GROUPS)) == pytest.approx(
        {"lab/ann": 2 / 9, "lab/ben": 4 / 9, "shop/cleo": 1 / 3}
    )


def test_the_rates_with_groups():
    assert rates("lottery", GROUPS) == pytest.approx([7 / 187, 84 / 187, 96 / 187])
    assert rates("paper000", GROUPS) == pytest.approx([20 / 67, 15 / 67, 32 / 67])


def test_the_rates_without_groups():
    assert rates("lottery", NO_GROUPS) == pytest.approx([1 / 17, 12 / 17, 4 / 17])
    assert rates("paper000", NO_GROUPS) == pytest.approx([2 / 9, 1 / 3, 4 / 9])


def test_the_orders_without_dice():
    assert order("stride").choose(CONTENDERS, GROUPS, Random(1)) == account("shop/cleo")
    assert order("fifo").choose(CONTENDERS, GROUPS, Random(1)) == account("lab/ben")


def test_the_charges():
    rule = ChargeRule(idle_weight=1, gpu_weight=0, memory_weight=0, offpeak_factor=0.5)
    paper = ChargeRule(idle_weight=0, gpu_weight=0, memory_weight=0, offpeak_factor=0.5)
    claimed = Resources(cpus=2)
    assert charge(claimed, 100, 150, rule, speed=1.2, urgency=3) == pytest.approx(720)
    assert charge(claimed, 100, 150, paper, speed=1.2, urgency=3) == pytest.approx(540)
    quiet = charge(claimed, 100, 150, rule, speed=1.2, urgency=3, is_offpeak=True)
    assert quiet == pytest.approx(360)


def test_the_burst_of_ann():
    assert is_below(1, 39, 2 * 2 / 9 * 90)
    assert not is_below(1, 40, 2 * 2 / 9 * 90)

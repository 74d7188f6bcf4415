"""The worked example of docs/spec/003-order.md, number by number."""

from random import Random

import pytest

from iriai.model.resources import Resources
from iriai.policy.expectation import expected_charge, provisional_charge
from iriai.policy.fairshare import ChargeRule, charge
from iriai.policy.limits import within_burst
from iriai.policy.order import NO_GROUPS, shares_wanted
from tests.policy.stories import account, by_name, contender, groups, order

FLOOR_S = 500.0
ANN_S = 800 + provisional_charge(expected_charge(2.0, 3600, 200), accrued_s=200)
CONTENDERS = [
    contender("lab/ann", ANN_S),
    contender("lab/ben", 4000, right=2, urgency=3),
    contender("shop/cleo", 20),
]
GROUPS = groups(lab=(2, ANN_S + 4000 + 3000), shop=(1, 20))


def rates(name, standings):
    found = by_name(order(name, FLOOR_S).rates(CONTENDERS, standings))
    return [found["lab/ann"], found["lab/ben"], found["shop/cleo"]]


def test_ann_counts_with_her_running_task():
    assert ANN_S == 1000


def test_shares_wanted():
    assert by_name(shares_wanted(CONTENDERS, GROUPS)) == pytest.approx(
        {"lab/ann": 2 / 9, "lab/ben": 4 / 9, "shop/cleo": 1 / 3}
    )


def test_the_rates_with_groups():
    assert rates("lottery", GROUPS) == pytest.approx([1 / 12, 1 / 4, 2 / 3])
    assert rates("paper000", GROUPS) == pytest.approx([20 / 67, 15 / 67, 32 / 67])


def test_the_rates_without_groups():
    assert rates("lottery", NO_GROUPS) == pytest.approx([1 / 6, 1 / 2, 1 / 3])
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
    ask = {"asked_cpus": 1, "share_wanted": 2 / 9, "total_cpus": 90}
    assert within_burst(**ask, running_cpus=39, burst=2, others_wait=True).allowed
    assert not within_burst(**ask, running_cpus=40, burst=2, others_wait=True).allowed

"""Draws in a row have the probabilities of the order, whatever changed between them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.policy.draw.order import Contender, Groups, IncrementalDraw
from iriai.policy.orders.lottery import LotteryDraw
from tests.policy.stories import FLOOR_S, account, contender, groups, order

NAMES = ("lab/ann", "lab/ben", "lab/dora", "shop/cleo", "shop/eve")
standings = st.tuples(st.floats(0.1, 10), st.floats(0, 1e4))
contenders = st.lists(
    st.builds(
        contender,
        st.sampled_from(NAMES),
        st.floats(0, 1e4),
        right=st.floats(0.1, 10),
        urgency=st.sampled_from([1.0, 1.0, 3.0]),
        expected_s=st.floats(0.01, 1e4),
    ),
    min_size=1,
    unique_by=lambda each: each.account,
)


def rates(drawing: LotteryDraw) -> dict:
    """From its weights."""
    weights = drawing.group_weights()
    total = sum(weights.values())
    return {
        each: weights[name] / total * weight / level.weight
        for name, level in drawing._levels.items()
        for each, weight in zip(level.accounts, level.weights, strict=True)
    }


@given(
    first=contenders,
    changes=contenders,
    gone=st.sampled_from(NAMES),
    lab=standings,
    shop=standings,
    later=standings,
    is_grouped=st.booleans(),
)
def test_after_changes_it_is_as_if_made_anew(first, changes, gone, lab, shop, later, is_grouped):
    lottery = order("lottery")
    told: Groups = groups(lab=lab, shop=shop) if is_grouped else {}
    drawing = lottery.drawing(first, told)
    left: dict = {each.account: each for each in first}
    for change in changes:
        drawing.replace(change)
        if change.account in left:
            left[change.account] = change
    drawing.leave(account(gone))
    left.pop(account(gone), None)
    if is_grouped:
        told = groups(lab=lab, shop=later)
        drawing.regroup(told["shop"])
    assert len(drawing) == len(left)
    expected = lottery.rates(list(left.values()), told)
    assert rates(drawing) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["lottery", "paper000", "stride"])
def test_it_draws_as_often_as_the_rates_say(name):
    asked: list[Contender] = [
        contender("lab/ann", 100.0),
        contender("lab/ben", 200.0, urgency=2.0),
        contender("shop/cleo", 400.0, expected_s=40.0),
    ]
    told = groups(lab=(2.0, 300.0), shop=(1.0, 400.0))
    drawing, rng = order(name).drawing(asked, told), Random(5)
    drawn = Counter(drawing.draw(rng) for _ in range(4000))
    for each, rate in order(name).rates(asked, told).items():
        assert drawn[each] / 4000 == pytest.approx(rate, abs=0.03)


def test_an_order_without_a_drawing_of_its_own_is_asked_each_time():
    asked = [contender("ann", 10.0), contender("ben", 20.0)]
    drawing = order("stride").drawing(asked, {})
    assert type(drawing) is IncrementalDraw
    assert drawing.draw(Random(1)) == account("ann")
    drawing.replace(contender("ann", 30.0))
    assert drawing.draw(Random(1)) == account("ben")
    drawing.leave(account("ben"))
    assert drawing.draw(Random(1)) == account("ann")


def test_floor_counts():
    drawing = order("lottery").drawing([contender("ann", 0.0), contender("ben", FLOOR_S)], {})
    assert rates(drawing) == {account("ann"): 0.5, account("ben"): 0.5}

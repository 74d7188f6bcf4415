"""The dice of a broker: by decision, however often it looks."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import fmean

from iriai.broker.state.contention import DecisionRng


def throws(dice: DecisionRng, count: int) -> list[float]:
    return [dice.random() for _ in range(count)]


def test_a_pass_that_decides_nothing_throws_the_same_again():
    dice = DecisionRng(Random(1))
    first = throws(dice, 3)
    dice.begin()
    assert throws(dice, 5)[:3] == first


def test_after_a_decision_the_throws_are_others_whoever_looked_before():
    looked, did_not = DecisionRng(Random(1)), DecisionRng(Random(1))
    before = throws(looked, 7)
    for dice in (looked, did_not):
        dice.decided()
    after = throws(looked, 7)
    assert after == throws(did_not, 7)
    assert not set(after) & set(before)


def test_two_decisions_at_once_are_two_decisions():
    one_by_one, at_once = DecisionRng(Random(1)), DecisionRng(Random(1))
    one_by_one.decided()
    one_by_one.decided()
    at_once.decided(2)
    assert throws(one_by_one, 3) == throws(at_once, 3)


def test_seeds_differ():
    assert throws(DecisionRng(Random(1)), 3) != throws(DecisionRng(Random(2)), 3)


def test_throws_are_even_over_decisions_and_within_one():
    dice = DecisionRng(Random(3))
    firsts, seconds = [], []
    for _ in range(20_000):
        firsts.append(dice.random())
        seconds.append(dice.random())
        dice.decided()
    tenths = [0] * 10
    for throw in firsts:
        assert 0.0 <= throw < 1.0
        tenths[int(throw * 10)] += 1
    assert all(1_800 < count < 2_200 for count in tenths)
    product = fmean((a - 0.5) * (b - 0.5) for a, b in zip(firsts, seconds, strict=True))
    assert abs(product) < 0.003
    following = fmean((a - 0.5) * (b - 0.5) for a, b in pairwise(firsts))
    assert abs(following) < 0.003

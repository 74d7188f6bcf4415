"""Whose turn it is: each in turn among few; among many a circle that changes slowly."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from iriai.protocol.sampling import CIRCLE, STAYS, Round


def round_of(count: int, seed: int = 1) -> Round:
    round_ = Round(Random(seed))
    for number in range(count):
        round_.add(f"m{number}")
    return round_


@given(st.integers(1, CIRCLE), st.integers(0, 100))
def test_of_few_each_has_its_turn_in_each_round(count, seed):
    round_ = round_of(count, seed)
    for _ in range(20):
        assert len({round_.next() for _ in range(count)}) == count


def test_of_many_one_machine_speaks_to_few_at_a_time():
    round_ = round_of(500)
    turns = [round_.next() for _ in range(STAYS - 1)]
    assert len(set(turns)) == CIRCLE
    assert max(Counter(turns).values()) - min(Counter(turns).values()) <= 1


def test_of_many_each_has_its_time_in_the_end():
    round_ = round_of(40)
    assert {round_.next() for _ in range(400 * STAYS)} == {f"m{n}" for n in range(40)}


def test_all_together_speak_to_all_with_hardly_an_exception():
    """Each is in somebody's circle but for one in e^8."""
    spoken = {
        name for seed in range(500) for name in round_of(500, seed)._circle if name != f"m{seed}"
    }
    assert len(spoken) >= 495


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=200), st.integers(0, 9))
def test_whoever_comes_and_goes_turns_are_of_those_that_are_there(changes, seed):
    round_, there = round_of(0, seed), set()
    for comes, number in changes:
        name = f"m{number}"
        if comes:
            round_.add(name)
            there.add(name)
        else:
            round_.discard(name)
            there.discard(name)
        assert len(round_) == len(there)
        turns = {round_.next() for _ in range(4 * CIRCLE)}
        if there:
            assert turns <= there
            assert len(turns) >= min(len(there), CIRCLE)
        else:
            assert turns == {None}

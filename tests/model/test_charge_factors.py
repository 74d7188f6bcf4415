"""Factors of charges: runs of equal ones, and a bound for how many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.charge_factors import RUNS_MAX, total_s, with_stretch


def joined(stretches):
    factors = ()
    for factor, seconds in stretches:
        factors = with_stretch(factors, factor, seconds)
    return factors


def test_neighbours_of_one_factor_are_one():
    assert joined([(1.0, 10), (1.0, 5), (0.5, 3), (1.0, 2)]) == ((1.0, 15), (0.5, 3), (1.0, 2))


def test_no_time_is_nothing():
    assert joined([(1.0, 0.0), (0.5, -1.0)]) == ()


stretches = st.tuples(st.sampled_from([0.25, 0.5, 1.0]), st.integers(0, 100))


@given(st.lists(stretches, max_size=300))
def test_no_second_is_forgotten_and_the_list_stays_short(parts):
    factors = joined(parts)
    assert len(factors) <= RUNS_MAX + 3
    assert total_s(factors) == pytest.approx(sum(seconds for _, seconds in parts))
    for wanted in (0.25, 0.5, 1.0):
        of_factor = [(factor, seconds) for factor, seconds in parts if factor == wanted]
        assert total_s(tuple(f for f in factors if f[0] == wanted)) == total_s(tuple(of_factor))

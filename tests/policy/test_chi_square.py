"""The yardstick itself, against published critical values."""

import pytest

from tests.policy.chi_square import p_value, tail_probability


@pytest.mark.parametrize(
    ("degrees", "critical"),
    [(1, 10.828), (2, 13.816), (3, 16.266), (4, 18.467), (5, 20.515), (9, 27.877)],
)
def test_the_critical_values_for_one_in_a_thousand(degrees, critical):
    # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4, column 0.001.
    assert tail_probability(critical, degrees) == pytest.approx(0.001, rel=1e-3)


def test_draws_as_expected_are_likely_and_others_are_not():
    assert p_value({"a": 500, "b": 500}, {"a": 0.5, "b": 0.5}) == 1.0
    assert p_value({"a": 560, "b": 440}, {"a": 0.5, "b": 0.5}) < 0.001

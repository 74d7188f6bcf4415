"""Use counts in full for a window, fades out over its last bucket, and then counts no more."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account
from iriai.model.records import BUCKETS
from iriai.policy.accounting.decay import Decay
from iriai.policy.accounting.runtime_estimates import RunTimes
from iriai.policy.accounting.sliding_window import WindowCounter, WindowDecay, WindowSum

DAY_S = 86_400.0
MONTH_S = BUCKETS * DAY_S
NOW_S = 20_000 * DAY_S
"""When a bucket of a month begins."""
ANN, BOB = Account("lab", "ann"), Account("lab", "bob")
TIMES = RunTimes(3, 30.0)


def test_a_charge_counts_for_the_window_and_fades_within_a_day():
    counter = WindowCounter(MONTH_S).charged(100.0, 25.0, NOW_S)
    assert counter.at(NOW_S) == counter.at(NOW_S + MONTH_S) == 100
    assert counter.at(NOW_S + MONTH_S + DAY_S / 4) == pytest.approx(75)
    assert counter.advance_at(NOW_S + MONTH_S + DAY_S / 2) == pytest.approx(12.5)
    assert counter.at(NOW_S + MONTH_S + DAY_S) == 0


def test_a_counter_stays_small_however_long_it_counts():
    counter = WindowCounter(MONTH_S)
    for day in range(400):
        counter = counter.charged(1.0, 0.0, NOW_S + day * DAY_S)
    assert len(counter.buckets) == BUCKETS + 1
    assert counter.at(NOW_S + 399 * DAY_S) == BUCKETS + 1
    assert counter.at(NOW_S + 399.75 * DAY_S) == pytest.approx(BUCKETS + 0.25)


def test_after_a_clock_was_set_back_charges_still_count():
    ahead = WindowCounter(MONTH_S).charged(100.0, 0.0, NOW_S + 90 * DAY_S)
    assert ahead.charged(30.0, 0.0, NOW_S).at(NOW_S) == 130


def test_a_counter_goes_on_under_a_new_rule():
    month = WindowCounter(MONTH_S).charged(100.0, 50.0, NOW_S).charged(10.0, 0.0, NOW_S + DAY_S)
    year = WindowDecay(1.0, 12 * MONTH_S).restored(month.row(ANN, TIMES))
    assert year.at(NOW_S + DAY_S) == 110
    halved = Decay(DAY_S).restored(month.row(ANN, TIMES))
    assert halved.at(NOW_S + DAY_S) == pytest.approx(60)
    assert halved.advance_at(NOW_S + DAY_S) == pytest.approx(25)
    again = WindowDecay(DAY_S, MONTH_S).restored(halved.row(ANN, TIMES))
    assert again.at(NOW_S + DAY_S) == pytest.approx(60)
    assert again.advance_at(NOW_S + DAY_S) == pytest.approx(25)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_a_counter_never_falls(wrong):
    with pytest.raises(ValueError, match="charge"):
        WindowCounter(MONTH_S).charged(wrong, 0.0, NOW_S)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_a_window_is_more_than_nothing(wrong):
    with pytest.raises(ValueError, match="window_s"):
        WindowCounter(wrong)


def test_counters_of_two_windows_are_not_merged():
    with pytest.raises(ValueError, match="differ"):
        WindowCounter(1.0).merged(WindowCounter(2.0))


charges = st.integers(0, 1_000_000).map(float)
moments = st.floats(0, 60 * MONTH_S)
histories = st.lists(st.tuples(charges, moments), max_size=8)
windows = st.sampled_from([60.0, 3600.0, 7 * DAY_S, MONTH_S])


def counted(window_s, history):
    counter = WindowCounter(window_s)
    for charge_s, wall_s in history:
        counter = counter.charged(charge_s, charge_s / 2, wall_s)
    return counter


@given(windows, histories, histories, histories)
def test_merging_is_idempotent_commutative_and_associative(window_s, first, second, third):
    a, b, c = (counted(window_s, history) for history in (first, second, third))
    assert a.merged(a) == a
    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))


@given(windows, histories, charges, moments)
def test_a_later_copy_wins_against_its_past(window_s, history, charge_s, wall_s):
    past = counted(window_s, history)
    later = past.charged(charge_s, 0.0, wall_s)
    assert past.merged(later) == later.merged(past) == later


@given(windows, histories, moments, moments)
def test_use_only_fades_while_nothing_is_charged(window_s, history, first_s, second_s):
    counter = counted(window_s, history)
    first_s, second_s = sorted((first_s, second_s))
    assert counter.at(second_s) <= counter.at(first_s)


@given(windows, histories, charges, moments)
def test_a_charge_adds_itself(window_s, history, charge_s, wall_s):
    counter = counted(window_s, history)
    after = counter.charged(charge_s, 0.0, wall_s)
    assert after.at(wall_s) == pytest.approx(counter.at(wall_s) + charge_s)


@given(windows, st.lists(st.tuples(st.sampled_from([ANN, BOB]), charges, moments), max_size=12))
def test_a_sum_is_that_of_its_counters(window_s, history):
    counters = {ANN: WindowCounter(window_s), BOB: WindowCounter(window_s)}
    together = WindowSum[Account](window_s)
    for account, charge_s, wall_s in sorted(history, key=lambda each: each[2]):
        counters[account] = counters[account].charged(charge_s, 0.0, wall_s)
        together.merge(account, counters[account].row(account, TIMES))
        alone = sum(counter.at(wall_s) for counter in counters.values())
        assert together.at(wall_s) == pytest.approx(alone)
    latest_s = max((each[2] for each in history), default=0.0)
    total = together.at(latest_s)
    together.drop(BOB)
    together.drop(BOB)
    left = counters[ANN].at(latest_s)
    assert together.at(latest_s) == pytest.approx(left, abs=1e-9 * max(1.0, total))


@given(windows, histories)
def test_what_is_stored_is_restored(window_s, history):
    counter = counted(window_s, history)
    assert WindowDecay(1.0, window_s).restored(counter.row(ANN, TIMES)) == counter

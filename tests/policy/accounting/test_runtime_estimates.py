"""What a task is expected to cost before it has ended."""

from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.policy.accounting.runtime_estimates import (
    EARLY_RUNS,
    EXPECTED_S_MIN,
    RECENT_RUNS,
    RUN_TO_BEGIN_WITH_S,
    RunSums,
    RunTimes,
    expected_charge,
    mean_run_s,
    provisional_charge,
)

HOUR_S = 3600.0


def after(runs_s, times=None, limit_s=None):
    times = times or RunTimes()
    for ran_s in runs_s:
        times = times.with_run(ran_s, limit_s)
    return times


def sums(*accounts):
    total = RunSums()
    for times in accounts:
        total = total.replaced(RunTimes(), times)
    return total


def mean_s(times, *others):
    """Of an account beside others."""
    return mean_run_s(sums(times), sums(times, *others))


def test_a_first_run_is_expected_to_last_ten_minutes():
    assert mean_s(RunTimes()) == RUN_TO_BEGIN_WITH_S == 600


def test_a_newcomer_is_expected_to_run_as_long_as_the_others():
    assert mean_s(RunTimes(), after([10.0]), after([30.0])) == 20


def test_the_many_runs_of_one_do_not_speak_for_everybody():
    many, few = after(repeat(1.0, 10_000)), after(repeat(99.0, RECENT_RUNS))
    assert mean_s(RunTimes(), many, few) == 50


def test_a_first_run_says_little_and_many_say_all():
    others = after(repeat(1000.0, 1000 * RECENT_RUNS))
    overall_s = (1.0 + RECENT_RUNS * 1000) / (1 + RECENT_RUNS)
    tried_once = mean_s(after([1.0]), others)
    assert tried_once == pytest.approx((1.0 + EARLY_RUNS * overall_s) / (1 + EARLY_RUNS))
    assert mean_s(after(repeat(1.0, 10_000)), others) == pytest.approx(1, abs=1)


def test_one_account_alone_is_expected_to_run_as_it_ran():
    assert mean_s(after([10.0, 20.0, 60.0])) == 30


def test_who_turns_from_hours_to_seconds_is_soon_known_for_seconds():
    changed = after(chain(repeat(8 * HOUR_S, 100), repeat(1.0, 10 * RECENT_RUNS)))
    assert mean_s(changed) < 10


def test_the_limit_bounds_what_is_expected():
    assert expected_charge(2.0, None, 600) == 1200
    assert expected_charge(2.0, 60, 600) == 120
    assert expected_charge(2.0, 86400, 600) == 1200


def test_the_shortest_tasks_are_expected_to_cost_something():
    assert expected_charge(1.0, None, 0.0) == EXPECTED_S_MIN


def test_runs_of_a_second_that_said_so_do_not_make_long_ones_look_short():
    long_runs = after(repeat(HOUR_S, RECENT_RUNS))
    dummies = after(repeat(1.0, 1000), long_runs, limit_s=1.0)
    assert mean_s(dummies) == HOUR_S
    unsaid = after(repeat(1.0, 1000), long_runs)
    assert mean_s(unsaid) == pytest.approx(1)


runs = st.lists(st.tuples(st.floats(0, 1e5), st.none() | st.floats(0.01, 1e5)), max_size=60)


@given(earlier=st.lists(st.floats(0, 1e5), min_size=RECENT_RUNS, max_size=20), later=runs)
def test_what_was_expected_adds_up_to_what_was_run(earlier, later):
    """The difference is what is expected next, and no more than that of a few runs."""
    times = before = after(earlier)
    expected_s = ran_s = 0.0
    for wished_s, limit_s in later:
        run_s = wished_s if limit_s is None else min(wished_s, limit_s)
        expected_s += expected_charge(1.0, limit_s, times.run_s / RECENT_RUNS)
        ran_s += run_s
        times = times.with_run(run_s, limit_s)
    still_owed_s = times.run_s - before.run_s
    assert times.run_s >= 0
    assert expected_s + still_owed_s == pytest.approx(ran_s, abs=1.0)


copies = st.builds(after, st.lists(st.floats(0, 1e5), max_size=20))


@given(one=copies, more=st.lists(st.floats(0, 1e5), min_size=1, max_size=20))
def test_of_two_copies_the_later_one_stays(one, more):
    later = after(more, one)
    assert one.merged(later) == later.merged(one) == later
    assert later.merged(later) == later


@given(accounts=st.lists(copies, max_size=5), new=copies)
def test_sums_follow_what_replaces_what(accounts, new):
    old = after([5.0])
    replaced = sums(old, *accounts).replaced(old, new)
    expected = sums(new, *accounts)
    assert replaced[:2] == expected[:2]
    assert replaced.recent_s == pytest.approx(expected.recent_s, abs=1e-3)


def test_what_has_accrued_is_not_counted_twice_and_never_given_back():
    assert provisional_charge(1200, accrued_s=500) == 700
    assert provisional_charge(1200, accrued_s=5000) == 0

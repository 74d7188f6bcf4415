"""When quiet hours begin and end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.policy.accounting.offpeak import (
    NEWS_AGE_MAX_S,
    PAPER000,
    PER_CPU,
    OffpeakHours,
)


def mean(rule, *loads, cpus=4):
    return sum(rule.measure(load, cpus) for load in loads) / len(loads)


@pytest.mark.parametrize(
    ("load", "was_offpeak", "expected"),
    [(2.0, False, True), (2.2, False, False), (2.2, True, True), (2.6, True, False)],
)
def test_half_of_the_cpus_busy_is_quiet_and_a_little_more_does_not_end_it(
    load, was_offpeak, expected
):
    assert PER_CPU.is_offpeak(mean(PER_CPU, load), was_offpeak) is expected


def test_the_mean_counts_not_the_busiest_machine():
    assert PER_CPU.is_offpeak(mean(PER_CPU, 4.0, 0.0), was_offpeak=False)
    assert not PER_CPU.is_offpeak(mean(PER_CPU, 4.0, 1.0), was_offpeak=False)


def test_paper000_looks_at_load_averages_alone():
    assert PAPER000.is_offpeak(mean(PAPER000, 2.0, 0.0), was_offpeak=False)
    assert not PAPER000.is_offpeak(mean(PAPER000, 2.0, 0.1), was_offpeak=True)


def test_where_nothing_is_known_it_is_peak():
    assert not PER_CPU.is_offpeak(None, was_offpeak=True)
    assert not PAPER000.is_offpeak(None, was_offpeak=True)


def test_news_hold_for_a_minute():
    hours = OffpeakHours()
    hours.set_published(True, 100.0)
    assert hours.is_offpeak(159.9)
    assert not hours.is_offpeak(160.0)
    assert hours.so_far_s(1000.0) == 60.0


def test_what_is_said_again_goes_on_and_other_news_end_it():
    hours = OffpeakHours()
    hours.set_published(True, 0.0)
    hours.set_published(True, 30.0)
    hours.set_published(False, 50.0)
    hours.set_published(True, 70.0)
    assert hours.so_far_s(75.0) == 55.0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=20))
def test_off_peak_time_is_what_news_no_older_than_a_minute_say(news):
    hours, now_s, expected_s, last = OffpeakHours(), 0, 0, None
    for is_offpeak, pause_s in news:
        hours.set_published(is_offpeak, now_s)
        last = is_offpeak
        for second in range(pause_s):
            expected_s += last and second < NEWS_AGE_MAX_S
        now_s += pause_s
        assert hours.so_far_s(now_s) == expected_s

"""What a machine learns of when its owner is away."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.policy.owner.absence import HORIZON_S, KEPT, Absences

MONDAY_S = 1_800_230_400.0
HOUR_S, DAY_S, WEEK_S = 3_600.0, 86_400.0, 7 * 86_400.0
NINE, FIVE = 9 * HOUR_S, 17 * HOUR_S
moments = st.lists(
    st.tuples(st.floats(0.0, 3 * DAY_S), st.booleans(), st.booleans()), min_size=1, max_size=30
)


class Desk:
    """A machine whose clocks agree; times are seconds since a Monday."""

    def __init__(self) -> None:
        self.absences = Absences()

    def look(self, now_s: float, *, is_idle: bool, is_return: bool = True) -> None:
        self.absences.look(now_s, MONDAY_S + now_s, is_idle=is_idle, is_return=is_return)

    def expected_h(self, now_s: float) -> float:
        return self.absences.expected_s(now_s, MONDAY_S + now_s) / HOUR_S

    def office(self, weeks: range, days: int = 5, comes_s: float = NINE) -> None:
        """Its owner works eight hours, and pauses for a quarter of an hour at every full hour."""
        for week in weeks:
            for day in range(days):
                begin_s = week * WEEK_S + day * DAY_S + comes_s
                for hour in range(8):
                    self.look(begin_s + hour * HOUR_S, is_idle=False)
                    self.look(begin_s + hour * HOUR_S + 2_700.0, is_idle=True)


def test_a_desk_knows_nights_weekends_and_pauses_after_four_weeks():
    desk = Desk()
    desk.look(0.0, is_idle=True)
    desk.office(range(4))
    monday_s = 4 * WEEK_S
    assert desk.expected_h(3 * WEEK_S + 4 * DAY_S + FIVE) > 30.0  # not Saturday morning
    desk.office(range(4, 5), days=1)
    evening_s = monday_s + FIVE + 1_800.0
    assert 14.0 < desk.expected_h(evening_s) < 18.0
    desk.look(monday_s + DAY_S + NINE, is_idle=False)
    desk.look(monday_s + DAY_S + NINE + 2_700.0, is_idle=True)
    assert desk.expected_h(monday_s + DAY_S + NINE + 2_701.0) < 0.5


def test_in_use_it_expects_no_idle_time():
    desk = Desk()
    assert desk.expected_h(0.0) == 0.0
    desk.look(0.0, is_idle=True)
    assert desk.expected_h(0.0) > 0.0
    desk.look(60.0, is_idle=False)
    assert desk.expected_h(60.0) == 0.0


def test_what_was_expected_becomes_less_as_time_goes_by():
    desk = Desk()
    desk.look(0.0, is_idle=True)
    first_h = desk.expected_h(0.0)
    assert desk.expected_h(30.0) == pytest.approx(first_h - 30.0 / HOUR_S)


def test_an_owner_who_changes_shifts_is_learnt_anew():
    desk = Desk()
    desk.look(0.0, is_idle=True)
    desk.office(range(8))
    assert desk.expected_h(7 * WEEK_S + 4 * DAY_S + FIVE) > 40.0
    desk.office(range(8, 20), days=7)  # weekends too, from now on
    desk.office(range(20, 21), days=5)
    assert desk.expected_h(20 * WEEK_S + 4 * DAY_S + FIVE) < 24.0


def test_use_that_nobody_explains_is_no_return():
    told, untold = Desk(), Desk()
    for desk, is_return in ((told, True), (untold, False)):
        desk.look(0.0, is_idle=True)
        for hour in range(1, 50):
            desk.look(hour * HOUR_S, is_idle=False, is_return=is_return)
            desk.look(hour * HOUR_S + 1.0, is_idle=True)
    asked_s = 49 * HOUR_S + 2.0
    assert 2 * told.expected_h(asked_s) < untold.expected_h(asked_s)


@given(moments, st.floats(-DAY_S, DAY_S))
def test_any_history_gives_a_time_within_bounds_that_a_restart_keeps(steps, jump_s):
    absences, steady_s, wall_s = Absences(), 0.0, MONDAY_S
    for after_s, is_idle, is_return in steps:
        steady_s += after_s
        wall_s += after_s
        absences.look(steady_s, wall_s, is_idle=is_idle, is_return=is_return)
        expected_s = absences.expected_s(steady_s, wall_s)
        assert 0.0 <= expected_s <= HORIZON_S
        assert (expected_s == 0.0) is not is_idle
        wall_s += jump_s if is_return else 0.0  # the clock on the wall is set
    again = Absences(absences.stored())
    absences.look(steady_s, wall_s, is_idle=False, is_return=False)
    for each in (absences, again):
        each.look(steady_s, wall_s, is_idle=True)
    now_s = absences.expected_s(steady_s, wall_s)
    assert again.expected_s(steady_s, wall_s) == pytest.approx(now_s, rel=1e-3, abs=1.0)


@given(st.lists(st.floats(0.0, 2 * DAY_S), min_size=2, max_size=20), st.integers(0, 6))
def test_looks_between_change_nothing(spans, day):
    often, seldom, now_s = Desk(), Desk(), day * DAY_S
    ends = [now_s := now_s + span for span in spans]
    for number, (begin_s, end_s) in enumerate(pairwise(ends)):
        for desk in (often, seldom):
            desk.look(begin_s, is_idle=bool(number % 2))
        for part in range(1, 4):
            between_s = begin_s + part * (end_s - begin_s) / 4
            often.look(between_s, is_idle=bool(number % 2))
    for desk in (often, seldom):
        desk.look(ends[-1], is_idle=True)
    counts = zip(*(KEPT.unpack(desk.absences.stored()) for desk in (often, seldom)), strict=True)
    # Old counts lose weight at looks: a little sooner for who looks more often.
    assert all(abs(one - other) <= 1e-2 + 0.2 * other for one, other in counts)


@given(st.binary(max_size=64) | st.binary(min_size=KEPT.size, max_size=KEPT.size))
def test_stored_counts_that_are_none_count_as_nothing_or_within_bounds(kept):
    absences = Absences(kept)
    absences.look(0.0, MONDAY_S, is_idle=True)
    assert 0.0 < absences.expected_s(0.0, MONDAY_S) <= HORIZON_S
    assert len(absences.stored()) == KEPT.size

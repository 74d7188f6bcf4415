"""What is returned for what owners destroyed (docs/spec/003, section 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.records import DAY_S, REFUND_DAYS, Refund
from iriai.policy.accounting.decay import Decay
from iriai.policy.accounting.refunds import ReturnedCharges, beyond, merged, plus, with_refund
from iriai.policy.accounting.sliding_window import WindowDecay

WEEK = Decay(604_800.0)
MONTH = WindowDecay(604_800.0, 32 * DAY_S)
NOW_S = 20_000 * DAY_S + 40_000.0
MOST_S = 1000.0

decays = st.sampled_from([WEEK, Decay(DAY_S), Decay(60.0), MONTH])
amounts = st.floats(0.01, 1e6)
lengths = st.floats(0.0, 3 * DAY_S)
moments = st.floats(NOW_S, NOW_S + 20 * DAY_S)
works = st.lists(st.tuples(amounts, lengths, moments), max_size=8)


def refunds_of(done, decay=WEEK):
    """Each of these: charge, how long it took, when it was destroyed."""
    refunds = ()
    for charge_s, length_s, wall_s in done:
        refunds = with_refund(refunds, charge_s, wall_s - length_s, wall_s, decay)
    return refunds


def returned(*machines, decay=WEEK, wall_s=NOW_S, most_s=MOST_S):
    account = ReturnedCharges()
    for number, refunds in enumerate(machines):
        account.merge(number, refunds)
    return account.at(wall_s, most_s, decay)


def test_what_was_computed_since_yesterday_is_returned_as_it_was_charged():
    refunds = with_refund((), 80.0, NOW_S, NOW_S, WEEK)
    assert returned(refunds) == pytest.approx(80.0)
    assert returned(refunds, wall_s=NOW_S + 604_800.0) == pytest.approx(40.0)


def test_all_machines_together_return_no_more_than_the_bound_of_a_day():
    one, other = (with_refund((), charge_s, NOW_S, NOW_S, WEEK) for charge_s in (700.0, 800.0))
    assert returned(one, other) == pytest.approx(MOST_S)
    assert returned(one, other, most_s=0.0) == 0.0
    tomorrow = with_refund(one, 900.0, NOW_S + DAY_S, NOW_S + DAY_S, WEEK)
    left_s = 700.0 * 2 ** (-1 / 7) + 900.0
    assert returned(tomorrow, wall_s=NOW_S + DAY_S) == pytest.approx(left_s)


def test_a_day_that_is_long_over_is_dropped():
    refunds = with_refund((), 5.0, NOW_S, NOW_S, WEEK)
    later_s = NOW_S + REFUND_DAYS * DAY_S
    assert len(with_refund(refunds, 5.0, later_s - DAY_S, later_s - DAY_S, WEEK)) == 2
    assert len(with_refund(refunds, 5.0, later_s, later_s, WEEK)) == 1


def test_a_clock_that_was_set_back_adds_to_the_latest_day():
    refunds = with_refund((), 5.0, NOW_S, NOW_S, WEEK)
    [day] = with_refund(refunds, 7.0, NOW_S - 9 * DAY_S, NOW_S - 9 * DAY_S, WEEK)
    assert day.charge_s == 12.0
    assert day.counts_s <= 12.0


def test_what_a_machine_returned_is_forgotten_with_it():
    account = ReturnedCharges()
    account.merge("ume", with_refund((), 5.0, NOW_S, NOW_S, WEEK))
    account.merge("take", with_refund((), 7.0, NOW_S, NOW_S, WEEK))
    account.drop("ume")
    account.drop("ume")
    assert account.at(NOW_S, MOST_S, WEEK) == pytest.approx(7.0)


def test_under_a_window_what_is_returned_leaves_it_no_later_than_the_charge():
    counter = MONTH.counter().charged(80.0, 0.0, NOW_S)
    refunds = with_refund((), 80.0, NOW_S, NOW_S, MONTH)
    assert returned(refunds, decay=MONTH, wall_s=NOW_S + 20 * DAY_S) == 80.0
    for hours in range(35 * 24):
        wall_s = NOW_S + 3600.0 * hours
        assert returned(refunds, decay=MONTH, wall_s=wall_s) <= counter.at(wall_s) + 1e-9


@given(works, works, works)
def test_merging_is_idempotent_commutative_and_associative(first, second, third):
    a, b, c = map(refunds_of, (first, second, third))
    assert merged(a, a) == a
    assert merged(a, b) == merged(b, a)
    assert merged(merged(a, b), c) == merged(a, merged(b, c))


@given(works, st.tuples(amounts, lengths, moments))
def test_a_later_copy_wins_against_its_past(done, more):
    past, later = refunds_of(done), refunds_of([*done, more])
    assert merged(later, past) == later == merged(past, later)
    assert sum(each.charge_s for each in later) >= sum(each.charge_s for each in past)


@given(decays, works, st.floats(0.0, 60 * DAY_S))
def test_a_refund_never_weighs_more_than_what_was_charged(decay, done, after_s):
    """Charges were made at any time between the begin of the work and its end: at worst at once."""
    wall_s = NOW_S + 20 * DAY_S + after_s
    counter = decay.counter()
    charged = sorted((wall_s - length_s, charge_s) for charge_s, length_s, wall_s in done)
    for made_s, charge_s in charged:
        counter = counter.charged(charge_s, 0.0, made_s)
    ordered = sorted(done, key=lambda each: each[2])
    left_s = returned(refunds_of(ordered, decay), decay=decay, wall_s=wall_s, most_s=1e12)
    assert left_s <= counter.at(wall_s) * (1 + 1e-9) + 1e-9


@given(decays, st.lists(works, max_size=4), moments)
def test_no_day_returns_more_than_its_bound_and_never_more_than_was_counted(decay, machines, at_s):
    counted = [refunds_of(done, decay) for done in machines]
    left_s = returned(*counted, decay=decay, wall_s=at_s)
    by_day = {}
    for refunds in counted:
        for day, charge_s, _ in refunds:
            by_day[day] = by_day.get(day, 0.0) + charge_s
    assert left_s <= sum(min(MOST_S, each) for each in by_day.values()) * (1 + 1e-9)


@given(works, works)
def test_what_others_hold_beyond_ours_is_the_difference(mine, more):
    ours = refunds_of(sorted(mine, key=lambda each: each[2]))
    theirs = plus(ours, refunds_of(sorted(more, key=lambda each: each[2])))
    lost = beyond(theirs, ours)
    again = {day: charge_s for day, charge_s, _ in plus(ours, lost)}
    assert again == pytest.approx({day: charge_s for day, charge_s, _ in theirs if charge_s})
    assert Refund(0, 0.0, 0.0) not in lost

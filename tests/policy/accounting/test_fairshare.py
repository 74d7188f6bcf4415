"""What use costs, and how it is forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.config.sections import OrderSection
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule, DecayedCounter, charge
from iriai.policy.accounting.runtime_estimates import RunTimes

WEEK_S = 604_800.0
NOW_S = 1_700_000_000.0
"""Some day in 2023, in the middle of a week since 1970."""
PLAIN = ChargeRule(idle_weight=1, gpu_weight=0, memory_weight=0, offpeak_factor=0.5)
TWO_CPUS = Resources(cpus=2)
ANN = Account("lab", "ann")


def test_a_claimed_cpu_costs_its_time_even_when_it_idles():
    assert charge(TWO_CPUS, ran_s=10, cpu_s=3, rule=PLAIN) == 20


def test_cpu_time_beyond_the_claim_is_charged():
    assert charge(TWO_CPUS, ran_s=10, cpu_s=35, rule=PLAIN) == 35


def test_with_idle_weight_0_only_cpu_time_is_charged():
    rule = ChargeRule(idle_weight=0, gpu_weight=0, memory_weight=0)
    assert charge(TWO_CPUS, ran_s=10, cpu_s=3, rule=rule) == 3


def test_gpus_and_memory_are_charged_by_their_weights():
    rule = ChargeRule(idle_weight=1, gpu_weight=8, memory_weight=0.5)
    claimed = Resources(cpus=1, gpus=2, memory_bytes=4 << 30)
    assert charge(claimed, ran_s=10, cpu_s=0, rule=rule) == 10 + 8 * 2 * 10 + 0.5 * 4 * 10


def test_a_second_of_a_busy_claim_costs_its_rate():
    rule = ChargeRule(idle_weight=0, gpu_weight=8, memory_weight=0.5)
    claimed = Resources(cpus=3, gpus=1, memory_bytes=2 << 30)
    assert charge(claimed, ran_s=10, cpu_s=30, rule=rule) == 10 * rule.rate(claimed) == 120
    assert ChargeRule(idle_weight=2, gpu_weight=0).rate(TWO_CPUS) == 4


def test_speed_urgency_and_quiet_hours_multiply():
    cost = charge(TWO_CPUS, 10, 3, PLAIN, speed=1.5, urgency=4, is_offpeak=True)
    assert cost == 20 * 1.5 * 4 * 0.5


def test_suspended_time_is_not_charged():
    # A task frozen for a whole slice ran 0 s of it.
    assert charge(TWO_CPUS, ran_s=0, cpu_s=0, rule=PLAIN) == 0


def test_the_rule_is_what_the_configuration_states():
    section = OrderSection(idle_weight=0.5, gpu_weight=3, memory_weight=0.1, offpeak_factor=0.2)
    assert ChargeRule.of(section) == ChargeRule(0.5, 3, 0.1, 0.2)
    assert ChargeRule.of(OrderSection()) == ChargeRule()


def test_use_halves_with_each_half_life():
    usage = DecayedCounter(WEEK_S).charged(100, 0.0, NOW_S)
    assert usage.at(NOW_S) == pytest.approx(100)
    assert usage.at(NOW_S + WEEK_S) == pytest.approx(50)
    assert usage.at(NOW_S + 3 * WEEK_S) == pytest.approx(12.5)


def test_a_counter_lasts_for_centuries_and_a_short_half_life():
    usage = DecayedCounter(1.0)
    for second in range(3_000):
        usage = usage.charged(1.0, 0.0, NOW_S + second)
    assert usage.at(NOW_S + 2_999) == pytest.approx(2)
    century_s = 100 * 366 * 86400.0
    later = usage.charged(7.0, 0.0, NOW_S + century_s)
    assert later.at(NOW_S + century_s) == pytest.approx(7)
    assert usage.at(NOW_S + century_s) == 0


def test_after_a_clock_was_set_back_charges_still_count_in_full():
    ahead = DecayedCounter(WEEK_S).charged(100, 0.0, NOW_S + 52 * WEEK_S)
    assert ahead.at(NOW_S) <= 200
    before_s = ahead.at(NOW_S)
    assert ahead.charged(30, 0.0, NOW_S).at(NOW_S) == pytest.approx(before_s + 30)


def test_a_stored_counter_is_restored_as_it_was():
    usage = DecayedCounter(WEEK_S).charged(100, 0.0, NOW_S)
    assert DecayedCounter.restored(WEEK_S, usage.row(ANN, RunTimes())) == usage


@pytest.mark.parametrize("other_half_life_s", [3600.0, 500_000.0, 2 * WEEK_S, 1e9])
def test_a_new_half_life_keeps_the_order_of_magnitude(other_half_life_s):
    usage = DecayedCounter(WEEK_S).charged(100, 0.0, NOW_S)
    restored = DecayedCounter.restored(other_half_life_s, usage.row(ANN, RunTimes()))
    assert restored.at(usage.epoch_wall_s) == pytest.approx(usage.at(usage.epoch_wall_s))
    assert restored.at(NOW_S) <= 2 * 100


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_counter_never_falls(wrong):
    with pytest.raises(ValueError, match="charge"):
        DecayedCounter(WEEK_S).charged(wrong, 0.0, NOW_S)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_half_life_is_more_than_nothing(wrong):
    with pytest.raises(ValueError, match="half_life_s"):
        DecayedCounter(wrong)


def test_counters_of_two_half_lives_are_not_merged():
    with pytest.raises(ValueError, match="differ"):
        DecayedCounter(1.0).merged(DecayedCounter(2.0))


charges = st.floats(0, 1e9)
moments = st.floats(0, 4e9)
histories = st.lists(st.tuples(charges, moments), max_size=8)
half_lives = st.sampled_from([1.0, 60.0, 86400.0, WEEK_S, 1e10])


def counted(half_life_s, history):
    usage = DecayedCounter(half_life_s)
    for charge_s, wall_s in history:
        usage = usage.charged(charge_s, charge_s / 4, wall_s)
    return usage


@given(half_lives, histories, histories, histories)
def test_merging_is_idempotent_commutative_and_associative(half_life_s, first, second, third):
    a, b, c = (counted(half_life_s, history) for history in (first, second, third))
    assert a.merged(a) == a
    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))


@given(half_lives, histories, charges, moments)
def test_a_later_copy_wins_against_its_past(half_life_s, history, charge_s, wall_s):
    past = counted(half_life_s, history)
    later = past.charged(charge_s, 0.0, wall_s)
    assert later.merged(past) == later == past.merged(later)
    assert later.epoch >= past.epoch


@given(half_lives, histories, moments, moments)
def test_usage_only_decays_while_nothing_is_charged(half_life_s, history, first_s, second_s):
    usage = counted(half_life_s, history)
    earlier_s, later_s = sorted((first_s, second_s))
    assert usage.at(later_s) <= usage.at(earlier_s)


@given(half_lives, histories, charges, moments)
def test_a_charge_adds_itself(half_life_s, history, charge_s, wall_s):
    usage = counted(half_life_s, history)
    expected = usage.at(wall_s) + charge_s
    assert usage.charged(charge_s, 0.0, wall_s).at(wall_s) == pytest.approx(
        expected, rel=1e-9, abs=1e-12
    )


@given(half_lives, st.lists(st.tuples(charges, moments), max_size=8), st.randoms())
def test_the_order_of_charges_within_an_epoch_does_not_matter(half_life_s, history, shuffler):
    within = [(charge_s, wall_s % half_life_s) for charge_s, wall_s in history]
    shuffled = list(within)
    shuffler.shuffle(shuffled)
    one, other = counted(half_life_s, within), counted(half_life_s, shuffled)
    assert one.counter == pytest.approx(other.counter)

"""What a machine has free from now on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.resources import Resources
from iriai.policy.placement.availability_profile import AvailabilityProfile
from iriai.policy.placement.policy_api import Claimed


def test_a_place_is_sought_between_claims_and_plans():
    profile = AvailabilityProfile(
        Resources(4), [Claimed(Resources(3), 10.0), Claimed(Resources(1), 20.0)], 5.0
    )
    assert profile.earliest_s(Resources(1), 100.0, 5.0) == 10.0
    assert profile.earliest_s(Resources(4), 1.0, 5.0) == 20.0
    profile.reserve(Resources(4), 20.0, 10.0)
    assert profile.earliest_s(Resources(3), 10.0, 5.0) == 10.0
    assert profile.earliest_s(Resources(3), 11.0, 5.0) == 30.0
    assert profile.earliest_s(Resources(3), None, 5.0) == 30.0
    assert profile.earliest_s(Resources(5), 1.0, 5.0) is None


def test_a_claim_past_its_end_counts_as_ending_now():
    profile = AvailabilityProfile(Resources(4), [Claimed(Resources(4), 3.0)], 5.0)
    assert profile.earliest_s(Resources(4), 1.0, 5.0) == 5.0


plans = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=12
)


@given(plans, st.integers(1, 4), st.integers(1, 20))
def test_a_place_is_free_all_the_time_and_none_before_it_is(made, cpus, stay_s):
    profile = AvailabilityProfile(Resources(4), (), 0.0)
    taken = []
    for width, _, stay in made:
        start_s = profile.earliest_s(Resources(width), stay, 0.0)
        profile.reserve(Resources(width), start_s, stay)
        taken.append((start_s, start_s + stay, width))

    def is_free(start_s):
        return all(
            sum(width for begin, end, width in taken if begin <= time < end) + cpus <= 4
            for time in range(int(start_s), int(start_s) + stay_s)
        )

    found = profile.earliest_s(Resources(cpus), stay_s, 0.0)
    assert is_free(found)
    assert not any(is_free(time) for time in range(int(found)))


@given(plans)
def test_what_is_given_back_leaves_nothing_behind(made):
    profile = AvailabilityProfile(Resources(4), (), 0.0)
    for width, start, stay in made:
        profile.reserve(Resources(width), start, stay)
    for width, start, stay in made:
        profile.give(Resources(width), start, stay)
    assert profile.earliest_s(Resources(4), None, 0.0) == 0.0

"""When something fits on a machine, and what is left beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.calendar import END_SLACK_S, OPEN_END_S, Calendar, longest_stay_s


def calendar(cpus=4, **claims: tuple[int, float | None]) -> Calendar[str]:
    """`cpus` cpus from second 0, with claims: cpus and how long they stay."""
    made: Calendar[str] = Calendar(Resources(cpus))
    for name, (claimed, stay_s) in claims.items():
        made.add(name, Resources(claimed), 0.0, stay_s)
    return made


def test_an_empty_machine_has_room_now():
    assert calendar(4).earliest(Resources(4), 7.0) == (7.0, NOTHING)


def test_what_is_larger_than_the_machine_never_fits():
    assert calendar(4).earliest(Resources(5), 0.0) is None


def test_room_comes_when_enough_claims_have_ended():
    full = calendar(4, short=(2, 10.0), long=(2, 30.0))
    assert full.earliest(Resources(1), 0.0) == (10.0, Resources(1))
    assert full.earliest(Resources(4), 0.0) == (30.0, NOTHING)


def test_what_else_ends_at_that_moment_is_spare():
    full = calendar(4, one=(2, 10.0), other=(2, 10.0))
    assert full.earliest(Resources(1), 0.0) == (10.0, Resources(3))


def test_a_claim_past_its_end_counts_as_ending_now():
    assert calendar(4, late=(4, 10.0)).earliest(Resources(1), 50.0) == (50.0, Resources(3))


def test_a_claim_without_limit_ends_when_nobody_plans_any_more():
    slot = calendar(4, open=(4, None)).earliest(Resources(1), 5.0)
    assert slot is not None
    assert slot.start_s == OPEN_END_S


def test_what_a_claim_held_is_free_again_when_it_is_removed():
    full = calendar(4, one=(3, 10.0))
    assert full.free == Resources(1)
    assert full.remove("one")
    assert full.free == Resources(4)
    assert not full.remove("one")


@pytest.mark.parametrize(
    ("cpus", "stay_s", "is_held"),
    [(2, 30.0, True), (2, 30.9, True), (2, 31.5, False), (2, None, False), (1, 30.0, False)],
)
def test_a_claim_is_held_that_has_so_much_for_so_long(cpus, stay_s, is_held):
    full = calendar(4, one=(2, 40.0), open=(2, None))
    assert full.is_held("one", Resources(cpus), 10.0, stay_s) is is_held
    assert full.is_held("open", Resources(2), 10.0, None)


def test_nothing_is_claimed_twice_under_one_name():
    with pytest.raises(ValueError, match="claimed already"):
        calendar(4, one=(1, 1.0)).add("one", Resources(1), 0.0, 1.0)


def test_claims_beyond_the_capacity_are_found():
    with pytest.raises(AssertionError, match="exceed"):
        calendar(4, one=(3, 1.0), other=(2, 1.0)).check()


def test_room_that_got_lost_is_found():
    full = calendar(4, one=(3, 1.0))
    full.free = Resources(4)
    with pytest.raises(AssertionError, match="add up"):
        full.check()


def test_a_claim_ahead_holds_nothing_and_is_not_passed():
    full = calendar(2, short=(1, 10.0), long=(1, 30.0))
    full.add_ahead("next", Resources(1), 0.0, 20.0)
    assert full.free == NOTHING
    assert list(full) == ["short", "long"]
    assert full.earliest(Resources(1), 0.0) == (20.0, NOTHING)
    assert full.earliest(Resources(2), 0.0) == (30.0, NOTHING)
    full.check()


def test_a_claim_ahead_that_is_given_up_leaves_nothing():
    full = calendar(1, short=(1, 10.0))
    full.add_ahead("next", Resources(1), 0.0, 20.0)
    assert full.remove_ahead("next")
    assert not full.remove_ahead("next")
    assert full.earliest(Resources(1), 0.0) == (10.0, NOTHING)
    full.check()


def test_a_place_is_kept_for_limit_grace_and_slack():
    assert longest_stay_s(60.0, 10.0) == 70.0 + END_SLACK_S
    assert longest_stay_s(None, 10.0) is None


claims = st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), st.floats(0, 100))), max_size=8)


@given(claims=claims, asked=st.integers(1, 8), now_s=st.floats(0, 50), keep=st.integers(0, 8))
def test_earliest_is_the_first_end_after_which_it_fits(claims, asked, now_s, keep):
    """Compared with trying every end in turn."""
    full: Calendar[int] = Calendar(Resources(8))
    ends: list[tuple[float, int]] = []
    for key, (cpus, stay_s) in enumerate(claims):
        if cpus <= full.free.cpus:
            full.add(key, Resources(cpus), 0.0, stay_s)
            ends.append((OPEN_END_S if stay_s is None else stay_s, cpus))
    full.check()

    def free_at(moment_s: float) -> int:
        return 8 - sum(cpus for end_s, cpus in ends if end_s > moment_s)

    moments = [now_s, *sorted(max(now_s, end_s) for end_s, _ in ends)]
    # What has ended by now is still claimed: it counts as ending now, if that is needed.
    after_ends_s = next(moment_s for moment_s in moments if free_at(moment_s) >= asked)
    expected = now_s if asked <= full.free.cpus else after_ends_s
    slot = full.earliest(Resources(asked), now_s)
    assert slot is not None
    assert slot.start_s == expected
    assert slot.spare.cpus == free_at(expected) - asked
    for key in list(full)[keep:]:
        full.remove(key)
    full.check()

"""What an account may take at once, and what it is told when it may not."""

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.reason import Reason, Rule
from iriai.policy.placement.calendar import is_below, within_running_cap


def test_a_third_of_96_cpus_is_32_in_spite_of_rounding():
    assert is_below(1, 31, 1 / 3 * 96)
    assert not is_below(1, 32, 1 / 3 * 96)


def test_the_running_cap_is_off_by_default():
    assert within_running_cap(1000, 10**6, None).allowed


def test_the_running_cap_is_meant_literally():
    assert within_running_cap(4, 4, 8).allowed
    assert not within_running_cap(5, 4, 8).allowed
    assert not within_running_cap(9, 0, 8).allowed


def test_a_refusal_by_the_cap_shows_its_numbers():
    assert within_running_cap(5, 4, 8).reason() == Reason(
        Rule.RUNNING_CAP,
        needed="5 more cpus",
        had="the account runs 4 of at most 8 by the cap for each account",
    )


@given(
    rights=st.lists(st.floats(0.01, 100), min_size=2, max_size=10),
    total=st.integers(1, 1000),
    factor=st.floats(1, 10),
)
def test_burst_leaves_no_cpu_that_nobody_may_take(rights, total, factor):
    """With jobs of one cpu, the limits of all that wait add up to all cpus or more."""
    taken = [0] * len(rights)
    for _ in range(total):
        allowed = [
            i
            for i, right in enumerate(rights)
            if not taken[i] or is_below(1, taken[i], factor * right / sum(rights) * total)
        ]
        assert allowed or sum(taken) > total - len(rights)
        if allowed:
            taken[allowed[0]] += 1

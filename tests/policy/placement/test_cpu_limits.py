"""What an account may take at once, and what it is told when it may not."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.reason import Reason, Rule
from iriai.policy.placement.calendar import within_burst, within_running_cap


def burst(asked, running, *, share=0.25, total=64, others_wait=True, factor=2.0):
    return within_burst(asked, running, share, total, burst=factor, others_wait=others_wait)


def test_a_newcomer_among_four_waiting_accounts_gets_half_of_64_cpus():
    taken = 0
    while burst(1, taken).allowed:
        taken += 1
    assert taken == 32


def test_one_alone_gets_all():
    check = burst(64, 0, others_wait=False)
    assert check.allowed
    assert check.limit_cpus == inf


def test_at_least_one_job_runs_however_large():
    assert burst(64, 0, share=0.01).allowed
    assert not burst(1, 64, share=0.01).allowed


def test_a_third_of_96_cpus_is_32_in_spite_of_rounding():
    assert burst(1, 31, share=1 / 3, total=96, factor=1.0).allowed
    assert not burst(1, 32, share=1 / 3, total=96, factor=1.0).allowed


def test_a_refusal_by_burst_shows_its_numbers():
    assert burst(1, 32).reason() == Reason(
        Rule.BURST,
        needed="1 more cpu",
        had="the account runs 32 of at most 32 while others wait",
    )


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


cpus = st.integers(0, 10_000)


@given(asked=cpus, running=cpus, total=cpus, factor=st.floats(1, 10))
def test_burst_never_blocks_the_only_account(asked, running, total, factor):
    # Its share wanted is 1, and nobody else waits.
    assert burst(asked, running, share=1.0, total=total, others_wait=False, factor=factor).allowed


@given(asked=cpus, share=st.floats(0, 1), total=cpus, factor=st.floats(1, 10))
def test_burst_never_blocks_who_runs_nothing(asked, share, total, factor):
    assert burst(asked, 0, share=share, total=total, factor=factor).allowed


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
            if burst(1, taken[i], share=right / sum(rights), total=total, factor=factor).allowed
        ]
        assert allowed or sum(taken) > total - len(rights)
        if allowed:
            taken[allowed[0]] += 1

"""When quiet hours begin and end."""

import pytest

from iriai.policy.offpeak import MachineLoad, applies, is_offpeak, is_offpeak_paper000


def room(*loads, cpus=4):
    return [MachineLoad(load, cpus) for load in loads]


@pytest.mark.parametrize(
    ("load", "was_offpeak", "expected"),
    [(2.0, False, True), (2.2, False, False), (2.2, True, True), (2.6, True, False)],
)
def test_half_of_the_cpus_busy_is_quiet_and_a_little_more_does_not_end_it(
    load, was_offpeak, expected
):
    assert is_offpeak(room(load), was_offpeak) is expected


def test_the_mean_counts_not_the_busiest_machine():
    assert is_offpeak(room(4.0, 0.0), was_offpeak=False)
    assert not is_offpeak(room(4.0, 1.0), was_offpeak=False)


def test_paper000_looks_at_load_averages_alone():
    assert is_offpeak_paper000(room(2.0, 0.0))
    assert not is_offpeak_paper000(room(2.0, 0.1))


def test_where_nothing_is_known_it_is_peak():
    assert not is_offpeak([], was_offpeak=True)
    assert not is_offpeak_paper000([])
    assert applies(published_offpeak=True, age_s=60)
    assert not applies(published_offpeak=True, age_s=61)
    assert not applies(published_offpeak=False, age_s=0)

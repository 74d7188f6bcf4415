"""How much of the time a machine is there, as it comes and goes."""

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.availability import Steadiness
from iriai.protocol.messages.candidates import WEIGHTS

HOUR_S = 3600.0
HIGHEST, MIDDLE = WEIGHTS[0][0], WEIGHTS[1][0]


def lived(*stretches: tuple[float, bool]) -> Steadiness:
    """A machine that was there, or away, for so many hours each."""
    wall_s = 1e9
    known = Steadiness().seen(wall_s, there=True)
    for hours, there in stretches:
        wall_s += hours * HOUR_S
        known = known.seen(wall_s, there=there)
    return known


def test_a_new_machine_is_in_the_middle_and_a_restart_leaves_it_there():
    assert MIDDLE < lived().value < HIGHEST
    assert MIDDLE < lived((0.1, True), (0.2, False), (0.1, True)).value < HIGHEST


def test_one_that_stays_comes_to_the_highest_weight_and_a_reboot_does_not_cost_it():
    assert lived((40, True)).value >= HIGHEST
    assert lived((24 * 14, True), (0.1, False)).value >= HIGHEST


def test_one_that_is_on_in_office_hours_alone_comes_to_the_lowest():
    days = [(9.0, True), (15.0, False)] * 14
    assert lived(*days).value < MIDDLE


def test_one_that_changed_its_ways_is_judged_by_the_new_ones():
    off_at_night = [(9.0, True), (15.0, False)] * 30
    assert lived(*off_at_night, (24 * 45, True)).value >= HIGHEST


def test_a_clock_that_goes_back_or_a_year_ahead_ruins_nothing():
    steady = lived((24 * 14, True))
    assert steady.seen(steady.wall_s - 1e6, there=False).value == steady.value
    late = steady.seen(steady.wall_s + 365 * 24 * HOUR_S, there=False)
    again = late.seen(late.wall_s + 40 * 24 * HOUR_S, there=True)
    assert again.value >= HIGHEST


@given(
    st.lists(st.tuples(st.floats(0.0, 1e5), st.booleans()), max_size=30),
    st.floats(1e-3, 1e5),
)
def test_it_is_a_part_of_one_and_being_there_never_lowers_it(stretches, hours):
    known = lived(*stretches)
    assert 0.0 < known.value <= 1.0
    more = known.seen(known.wall_s + hours * HOUR_S, there=True)
    # What was bad fades, too, but so does what was good: never below what is taken for granted.
    assert more.value >= min(known.value, lived().value) - 1e-9
    less = known.seen(known.wall_s + hours * HOUR_S, there=False)
    assert less.value <= max(known.value, lived().value) + 1e-9

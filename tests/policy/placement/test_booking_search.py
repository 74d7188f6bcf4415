"""The first time at which so many machines are free together."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.resources import Resources
from iriai.policy.placement.booking_search import earliest_of
from iriai.policy.placement.bookings import BookedSpan
from iriai.policy.placement.calendar import Calendar
from tests.policy.placement.naive_bookings import HORIZON_S, reservation


def machine(*times: tuple[float, float], cpus: int = 4, taken: int | None = None) -> Calendar[int]:
    """One with these bookings, of all that it has or of so many cpus."""
    made: Calendar[int] = Calendar(Resources(cpus))
    made.set_bookings(
        [
            BookedSpan(
                reservation(number), start_s, end_s, Resources(cpus if taken is None else taken)
            )
            for number, (start_s, end_s) in enumerate(times)
        ]
    )
    return made


def earliest_start(site, nodes, resources, length_s, from_s, latest_s=inf):
    """Of whole machines if no resources are named; the first of the site are preferred."""

    def run_from(name, start_s):
        return site[name].profile().run_from(resources or site[name].capacity, length_s, start_s)

    return earliest_of(list(site), nodes, run_from, length_s, from_s, latest_s)


def test_machines_are_free_together_after_the_first_moment_at_which_enough_are():
    site = {"a": machine((0, 10)), "b": machine((20, 30)), "c": machine((5, 40))}
    assert earliest_start(site, 1, None, 20.0, 0.0) == (0.0, ["b"])
    assert earliest_start(site, 2, None, 10.0, 0.0) == (10.0, ["a", "b"])
    assert earliest_start(site, 2, None, 11.0, 0.0) == (30.0, ["a", "b"])
    assert earliest_start(site, 3, None, 11.0, 0.0) == (40.0, ["a", "b", "c"])
    assert earliest_start(site, 3, None, 11.0, 0.0, 39.0) is None
    assert earliest_start(site, 4, None, 1.0, 0.0) is None


def test_the_preferred_come_first():
    site = {"z": machine(), "b": machine((0, 5)), "a": machine()}
    assert earliest_start(site, 2, None, 3.0, 0.0) == (0.0, ["z", "a"])
    assert earliest_start(site, 3, None, 3.0, 0.0) == (5.0, ["z", "b", "a"])


def test_what_is_free_later_is_preferred_to_what_was_free_before():
    site = {"a": machine((0, 10)), "b": machine((0, 10)), "c": machine()}
    assert earliest_start(site, 2, None, 5.0, 0.0) == (10.0, ["a", "b"])


def test_parts_of_machines_are_free_beside_bookings_of_other_parts():
    site = {"a": machine((0, 10), taken=3), "b": machine((0, 20), taken=2)}
    assert earliest_start(site, 2, Resources(1), 5.0, 0.0) == (0.0, ["a", "b"])
    assert earliest_start(site, 2, Resources(2), 5.0, 0.0) == (10.0, ["a", "b"])
    assert earliest_start(site, 1, Resources(5), 5.0, 0.0) is None


def naive_start(site, nodes, resources, length_s, from_s, latest_s):
    """Every second, machine by machine."""
    for start_s in range(from_s, int(min(latest_s, HORIZON_S)) + 1):
        names = [
            name
            for name, calendar in site.items()
            if calendar.is_bookable(resources or calendar.capacity, start_s, start_s + length_s)
        ]
        if len(names) >= nodes:
            return start_s, names[:nodes]
    return None


times = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 20)).map(lambda each: (each[0], sum(each))),
    max_size=4,
)
loads = st.tuples(times, st.integers(0, 4), st.lists(st.integers(1, 30), max_size=2))
"""Bookings and how much each takes, and how long claims of a cpu stay."""


def loaded(load) -> Calendar[int]:
    spans, taken, stays = load
    made = machine(*spans, taken=taken)
    for key, stay_s in enumerate(stays):
        made.add(key, Resources(1), 0.0, stay_s)
    return made


asks = st.tuples(
    st.integers(1, 5),
    st.integers(1, 25),
    st.integers(0, 30),
    st.one_of(st.just(inf), st.integers(0, 60)),
)


@given(st.lists(loads, min_size=1, max_size=6), asks, st.one_of(st.none(), st.integers(1, 4)))
def test_the_earliest_start_is_that_of_a_search_by_seconds(site, ask, cpus):
    calendars = {f"m{number}": loaded(load) for number, load in enumerate(site)}
    asked = None if cpus is None else Resources(cpus)
    nodes, length_s, from_s, latest_s = ask
    expected = naive_start(calendars, nodes, asked, length_s, from_s, max(latest_s, from_s))
    found = earliest_start(calendars, nodes, asked, length_s, from_s, max(latest_s, from_s))
    assert found == expected

"""What fits on a machine beside bookings that lie ahead."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.bookings import BookedSpan
from iriai.policy.placement.calendar import Calendar
from tests.policy.placement.naive_bookings import (
    HORIZON_S,
    NaiveCalendar,
    NaiveClaim,
    reservation,
)

CAPACITY = Resources(8, 0, 4, (("disk", 4),))


def span(number: int, start_s: float, end_s: float, cpus: int, *, is_open=False) -> BookedSpan:
    return BookedSpan(reservation(number), start_s, end_s, Resources(cpus), is_open)


def calendar(cpus: int, *spans: BookedSpan) -> Calendar[str]:
    made: Calendar[str] = Calendar(Resources(cpus))
    made.set_bookings(spans)
    return made


# --- stories -------------------------------------------------------------------------------------


def test_what_ends_before_a_booking_fits_and_what_lasts_into_it_does_not():
    booked = calendar(4, span(1, 100.0, 200.0, 4))
    assert booked.free == Resources(4)
    assert booked.fits(Resources(4), 0.0, 100.0)
    assert not booked.fits(Resources(1), 0.0, 101.0)
    assert not booked.fits(Resources(1), 0.0, None)
    assert booked.fitting_s(Resources(1), 40.0) == 60.0


def test_what_fits_beside_a_booking_fits_for_ever():
    booked = calendar(4, span(1, 100.0, 200.0, 3))
    assert booked.fits(Resources(1), 0.0, None)
    assert booked.fitting_s(Resources(1), 0.0) == inf


def test_without_bookings_what_is_free_fits():
    plain = calendar(4)
    assert plain.fits(Resources(4), 0.0, None)
    assert plain.fitting_s(Resources(4), 0.0) == inf
    assert plain.fitting_s(Resources(5), 0.0) == 0.0


def test_an_open_booking_takes_what_no_claim_inside_uses():
    booked = calendar(4, span(1, 0.0, 100.0, 3, is_open=True))
    assert booked.free == Resources(1)
    booked.add("inside", Resources(2), 0.0, 90.0, inside=reservation(1))
    assert booked.free == Resources(1)
    assert booked.left_in(reservation(1)) == Resources(1)
    assert booked.inside("inside") == reservation(1)
    booked.resize("inside", Resources(1))
    assert (booked.free, booked.left_in(reservation(1))) == (Resources(1), Resources(2))
    booked.change("inside", Resources(3), 10.0, 90.0)
    assert (booked.free, booked.left_in(reservation(1))) == (Resources(1), NOTHING)
    booked.pass_on("inside", "other", 10.0, 50.0)
    assert booked.inside("other") == reservation(1)
    assert booked.free == Resources(1)
    booked.remove("other")
    assert booked.left_in(reservation(1)) == Resources(3)
    booked.check()


def test_a_booking_that_ends_leaves_its_claims_as_ordinary_ones():
    booked = calendar(4, span(1, 0.0, 100.0, 4, is_open=True))
    booked.add("inside", Resources(1), 0.0, 150.0, inside=reservation(1))
    booked.leave("inside")
    assert booked.inside("inside") is None
    assert booked.free == Resources(-1)  # the booking has four still
    booked.set_bookings(())
    assert booked.bookings == ()
    assert booked.free == Resources(3)
    booked.check()


def test_a_claim_inside_may_come_before_its_booking_is_known():
    early: Calendar[str] = Calendar(Resources(4))
    early.add("inside", Resources(1), 0.0, 50.0, inside=reservation(1))
    assert early.free == Resources(3)
    early.set_bookings([span(1, 0.0, 60.0, 4, is_open=True)])
    assert early.free == NOTHING
    assert early.left_in(reservation(1)) == Resources(3)
    early.check()


def test_an_open_booking_past_its_end_keeps_its_resources():
    booked = calendar(4, span(1, 0.0, 100.0, 4, is_open=True))
    assert not booked.fits(Resources(1), 120.0, 10.0)
    assert booked.earliest(Resources(1), 120.0) == (120.0, Resources(3))


def test_a_booking_whose_start_has_come_is_reserved_before_it_is_open():
    booked = calendar(4, span(1, 100.0, 200.0, 4))
    assert booked.free == Resources(4)
    assert not booked.fits(Resources(1), 150.0, 10.0)
    assert booked.fitting_s(Resources(1), 150.0) == 0.0


def test_a_claim_ahead_counts_where_it_may_run_into_a_booking_and_not_before():
    booked = calendar(4, span(1, 100.0, 200.0, 2))
    booked.add("now", Resources(2), 0.0, 60.0)
    booked.add_ahead("next", Resources(2), 0.0, 150.0)
    assert booked.fits(Resources(2), 0.0, 100.0)
    assert not booked.fits(Resources(1), 0.0, 101.0)
    booked.remove_ahead("next")
    assert booked.fits(Resources(2), 0.0, 101.0)


def test_there_is_one_booking_for_a_reservation():
    booked = calendar(4, span(1, 0.0, 10.0, 4, is_open=True), span(1, 0.0, 10.0, 1, is_open=True))
    assert booked.free == Resources(3)
    assert len(booked.bookings) == 1


def test_a_place_is_sought_between_bookings():
    booked = calendar(4, span(2, 100.0, 200.0, 4), span(1, 20.0, 50.0, 3))
    assert booked.earliest(Resources(2), 0.0, stay_s=20.0) == (0.0, Resources(2))
    assert booked.earliest(Resources(1), 0.0, stay_s=30.0) == (0.0, NOTHING)
    assert booked.earliest(Resources(2), 0.0, stay_s=30.0) == (50.0, Resources(2))
    assert booked.earliest(Resources(2), 0.0) == (200.0, Resources(2))
    assert booked.earliest(Resources(2), 0.0, before_s=199.0) is None
    assert booked.earliest(Resources(5), 0.0) is None


def test_the_first_end_is_that_of_a_claim_or_a_booking():
    booked = calendar(4, span(1, 20.0, 50.0, 4))
    assert booked.first_end_s == 50.0
    booked.add("long", Resources(1), 0.0, 70.0)
    assert (booked.first_end_s, booked.first_claim_end_s) == (50.0, 70.0)
    booked.add("short", Resources(1), 0.0, 10.0)
    assert booked.first_end_s == 10.0


def test_of_what_is_in_the_way_the_last_granted_is_first_and_nothing_else_ends():
    full = calendar(8)
    for name, cpus, stay_s in (("old", 2, 500.0), ("short", 2, 50.0), ("big", 3, 500.0)):
        full.add(name, Resources(cpus), 0.0, stay_s)
    full.add("last", Resources(1), 0.0, 500.0)
    assert full.in_the_way(span(1, 100.0, 200.0, 2)) == []
    assert full.in_the_way(span(1, 100.0, 200.0, 3)) == ["last"]
    assert full.in_the_way(span(1, 100.0, 200.0, 4)) == ["big"]
    assert full.in_the_way(span(1, 100.0, 200.0, 8)) == ["last", "big", "old"]
    assert full.in_the_way(span(1, 0.0, 1.0, 8)) == ["last", "big", "short", "old"]


def test_a_claim_that_was_changed_keeps_its_age_if_its_grants_are_known():
    full = calendar(2)
    full.add("old", Resources(1), 0.0, 50.0)
    full.add("young", Resources(1), 5.0, 500.0)
    full.change("old", Resources(1), 10.0, 500.0)
    booking = span(1, 100.0, 200.0, 1)
    assert full.in_the_way(booking) == ["old"]
    assert full.in_the_way(booking, {"old": 0.0, "young": 5.0}.__getitem__) == ["young"]


def test_a_claim_past_its_end_is_in_the_way_of_an_open_booking():
    full = calendar(1)
    full.add("late", Resources(1), 0.0, 50.0)
    assert full.in_the_way(span(1, 100.0, 200.0, 1)) == []
    assert full.in_the_way(span(1, 100.0, 200.0, 1, is_open=True)) == ["late"]


def test_what_is_inside_is_not_in_the_way():
    booked = calendar(2, span(1, 0.0, 100.0, 2, is_open=True), span(2, 100.0, 200.0, 2))
    booked.add("inside", Resources(2), 0.0, 100.0, inside=reservation(1))
    booked.add("longer", Resources(1), 0.0, 110.0, inside=reservation(1))
    assert booked.in_the_way(booked.bookings[0]) == []
    assert booked.in_the_way(booked.bookings[1]) == ["longer"]


def test_where_bookings_alone_are_more_than_the_machine_all_else_has_to_end():
    shrunk = calendar(8, span(1, 100.0, 200.0, 8))
    shrunk.add("claim", Resources(1), 0.0, 150.0)
    shrunk.set_capacity(Resources(4))
    assert shrunk.in_the_way(shrunk.bookings[0]) == ["claim"]
    shrunk.check()


def test_what_an_open_booking_has_is_bookable_from_its_end_on():
    booked = calendar(4, span(1, 0.0, 100.0, 4, is_open=True))
    booked.add("inside", Resources(2), 0.0, 90.0, inside=reservation(1))
    assert not booked.is_bookable(Resources(4), 50.0, 150.0)
    assert booked.profile().run_from(Resources(4), 50.0, 0.0) == (100.0, inf)
    assert booked.profile().run_from(Resources(5), 50.0, 0.0) is None


def test_what_is_noted_of_a_booking_wrongly_is_found():
    booked = calendar(4, span(1, 0.0, 100.0, 4, is_open=True))
    booked.free = Resources(4)
    with pytest.raises(AssertionError, match="add up"):
        booked.check()


# --- laws ----------------------------------------------------------------------------------------


def resources(most: int) -> st.SearchStrategy[Resources]:
    return st.builds(
        lambda cpus, gpus, disk: Resources(cpus, 0, gpus, (("disk", disk),) if disk else ()),
        st.integers(0, most),
        st.integers(0, most // 2),
        st.integers(0, most // 2),
    )


spans = st.lists(
    st.builds(
        lambda number, start_s, length_s, taken, is_open: BookedSpan(
            reservation(number), float(start_s), float(start_s + length_s), taken, is_open
        ),
        st.integers(1, 4),
        st.integers(0, 30),
        st.integers(1, 15),
        resources(6),
        st.booleans(),
    ),
    max_size=4,
    unique_by=lambda each: each.reservation,
)
claims = st.lists(
    st.tuples(
        resources(4),
        st.integers(0, 40),
        st.one_of(st.none(), st.integers(1, 5).map(reservation)),
        st.booleans(),
    ),
    max_size=6,
)
seconds = st.integers(0, 45)


@st.composite
def pairs(draw) -> tuple[Calendar[int], NaiveCalendar]:
    """The same claims and bookings in both; there may be more of them than the machine has."""
    fast: Calendar[int] = Calendar(CAPACITY)
    naive = NaiveCalendar(CAPACITY)
    for key, (taken, stay_s, inside, is_ahead) in enumerate(draw(claims)):
        if is_ahead:
            fast.add_ahead(key, taken, 0.0, stay_s)
        else:
            fast.add(key, taken, 0.0, stay_s, inside)
        naive.claims.append(NaiveClaim(key, taken, stay_s, None if is_ahead else inside, is_ahead))
    naive.spans = draw(spans)
    fast.set_bookings(naive.spans)
    return fast, naive


@given(pairs(), resources(6), seconds, st.integers(1, 20))
def test_what_fits_is_what_fits_in_each_second(both, asked, now_s, stay_s):
    fast, naive = both
    assert fast.free == naive.free
    assert fast.fits(asked, now_s, stay_s) == naive.fits(asked, now_s, stay_s)
    assert fast.fits(asked, now_s, None) == naive.fits(asked, now_s, HORIZON_S)
    stays = [each for each in range(HORIZON_S) if naive.fits(asked, now_s, each)]
    longest_s = 0.0 if not stays else inf if stays[-1] == HORIZON_S - 1 else stays[-1]
    assert fast.fitting_s(asked, now_s) == longest_s


@given(pairs(), resources(8), seconds, st.integers(1, 20))
def test_the_first_bookable_start_is_that_of_a_search_by_seconds(both, asked, from_s, length_s):
    fast, naive = both
    end_s = from_s + length_s
    assert fast.is_bookable(asked, from_s, end_s) == naive.is_bookable(asked, from_s, end_s)
    run = fast.profile().run_from(asked, length_s, from_s)
    found = None if run is None else run[0]
    assert found == naive.bookable_from_s(asked, length_s, from_s)


@given(pairs(), resources(8), seconds, st.one_of(st.none(), st.integers(1, 20)), st.integers(0, 60))
def test_the_earliest_slot_is_that_of_a_search_by_seconds(both, asked, now_s, stay_s, before_s):
    fast, naive = both
    if not naive.spans:
        return  # the law of the calendar without bookings
    length_s = HORIZON_S if stay_s is None else stay_s
    start_s = naive.bookable_from_s(asked, length_s, now_s)
    slot = fast.earliest(asked, now_s, stay_s=stay_s)
    assert (None if slot is None else slot.start_s) == start_s
    if slot is not None:
        assert slot.spare.fits_in(fast.capacity)
        rooms = [naive.room(each).minus(asked) for each in range(start_s, start_s + length_s)]
        assert all(slot.spare.cpus <= room.cpus for room in rooms)
        for name, _ in CAPACITY.amounts():
            least = min(dict(room.amounts()).get(name, 0) for room in rooms)
            assert dict(slot.spare.amounts()).get(name, 0) == least
    is_late = start_s is None or start_s > max(before_s, now_s)
    assert (fast.earliest(asked, now_s, before_s, stay_s) is None) == is_late


@given(pairs(), spans)
def test_what_is_in_the_way_does_not_fit_in_some_second(both, asked):
    fast, naive = both
    for start in (*asked, *naive.spans):
        assert fast.in_the_way(start) == naive.in_the_way(start)


@given(pairs(), spans)
def test_with_what_is_in_the_way_gone_nothing_is_and_each_of_it_is_needed(both, asked):
    fast, _ = both
    for start in asked:
        in_the_way = fast.in_the_way(start)
        for back in (None, *in_the_way):
            rest = [key for key in in_the_way if key != back]
            again: Calendar[int] = Calendar(CAPACITY)
            for key, held, end_s in sorted(fast.in_order()):
                if key not in rest:
                    again.add(key, held, 0.0, end_s, fast.inside(key))
            again.set_bookings(fast.bookings)
            assert bool(again.in_the_way(start)) == (back is not None)


def _change(data, fast: Calendar[int], naive: NaiveCalendar, key: int) -> None:
    """One change of both."""
    kinds = ["add", "bookings", "capacity"]
    kinds += ["remove", "change", "resize", "pass_on", "leave"] * bool(naive.claims)
    kind = data.draw(st.sampled_from(kinds))
    if kind == "add":
        taken, stay_s, inside, _ = data.draw(claims.filter(bool))[0]
        fast.add(key, taken, 0.0, stay_s, inside)
        naive.claims.append(NaiveClaim(key, taken, stay_s, inside))
        return
    if kind == "bookings":
        naive.spans = data.draw(spans)
        fast.set_bookings(naive.spans)
        return
    if kind == "capacity":
        naive.capacity = data.draw(resources(16)).plus(CAPACITY)
        fast.set_capacity(naive.capacity)
        return
    claim = data.draw(st.sampled_from(naive.claims))
    if kind == "remove":
        assert fast.remove(claim.key)
        naive.claims.remove(claim)
    elif kind == "leave":
        fast.leave(claim.key)
        claim.inside = None
    elif kind == "resize":
        claim.resources = data.draw(resources(4))
        fast.resize(claim.key, claim.resources)
    elif kind == "change":
        claim.resources, claim.end_s = data.draw(resources(4)), data.draw(seconds)
        fast.change(claim.key, claim.resources, 0.0, claim.end_s)
    else:
        end_s = data.draw(st.one_of(st.just(claim.end_s), seconds))
        fast.pass_on(claim.key, key, 0.0, end_s)
        claim.key, claim.end_s = key, end_s


@given(st.data())
def test_what_is_free_adds_up_after_each_change(data):
    fast, naive = Calendar[int](CAPACITY), NaiveCalendar(CAPACITY)
    for key in range(data.draw(st.integers(1, 12))):
        _change(data, fast, naive, key)
        assert fast.free == naive.free
        for number in range(1, 6):
            assert fast.left_in(reservation(number)) == naive.left_in(reservation(number))
        for claim in naive.claims:
            assert fast.inside(claim.key) == claim.inside
            assert fast.held_by(claim.key) == claim.resources
        for moment_s in range(0, 50, 7):
            asked = Resources(2, 0, 1)
            assert fast.is_bookable(asked, moment_s, moment_s + 3) == naive.is_bookable(
                asked, moment_s, moment_s + 3
            )
        held = NOTHING
        for claim in naive.claims:
            held = held.plus(claim.resources)
        if held.fits_in(naive.capacity):
            fast.check()

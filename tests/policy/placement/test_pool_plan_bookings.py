"""The head of a parallel task beside bookings: the first moment at which all its ranks fit."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.model.ids import JobId, ReservationId
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.policy.placement.bookings import BookedSpan
from iriai.policy.placement.calendar import Calendar
from iriai.policy.placement.pool_plan import plan_head
from iriai.policy.placement.seats import Room, rank_fit, ranks_in

JOB = JobId("ume", 1)
claims = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([5.0, 10.0, 20.0, 40.0])), max_size=3
)
spans = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([0.0, 10.0, 25.0]), st.sampled_from([5.0, 15.0])),
    max_size=2,
)
machines = st.lists(st.tuples(claims, spans), min_size=1, max_size=3)
shapes = st.sampled_from(
    [
        RankShape(2, 2),
        RankShape(4, 4),
        RankShape(6, 6),
        RankShape(4, 4, 2),
        RankShape(2, 2, None, 2),
    ]
)


def calendar(of: tuple[list, list]) -> Calendar:
    """Four cpus; what does not fit is left out."""
    made: Calendar = Calendar(Resources(4))
    numbers = count()
    for cpus, stay_s in of[0]:
        if Resources(cpus).fits_in(made.free):
            made.add(next(numbers), Resources(cpus), 0.0, stay_s)
    booked: list[BookedSpan] = []
    for number, (cpus, start_s, length_s) in enumerate(of[1], 1):
        end_s = start_s + length_s
        made.set_bookings(booked)
        if made.is_bookable(Resources(cpus), start_s, end_s):
            span = BookedSpan(ReservationId("ume", number), start_s, end_s, Resources(cpus))
            booked.append(span)
    made.set_bookings(booked)
    return made


def first_s(calendars: dict[str, Calendar], shape: RankShape, stay_s: float) -> float | None:
    """Tried at every moment."""
    for half in range(200):
        at_s = half / 2
        rooms = [
            Room(name, fit)
            for name, each in calendars.items()
            if (fit := rank_fit(Resources(1), each.profile().least(at_s, at_s + stay_s)))
        ]
        if ranks_in(rooms, shape):
            return at_s
    return None


@settings(max_examples=200)
@given(machines, shapes, st.sampled_from([2.0, 10.0, 30.0]))
def test_it_is_the_first_moment_from_which_all_ranks_fit_until_their_end(pool, shape, stay_s):
    calendars = {f"m{number}": calendar(each) for number, each in enumerate(pool)}
    expected_s = first_s(calendars, shape, stay_s)
    head = plan_head(JOB, Resources(1), shape, calendars, 0.0, stay_s=stay_s)
    if not any(each.bookings for each in calendars.values()):
        return
    assert (None if head is None else head.start_s) == expected_s


def test_what_is_free_beside_it_is_the_least_of_its_whole_time():
    made: Calendar = Calendar(Resources(8))
    made.set_bookings([BookedSpan(ReservationId("ume", 1), 50.0, 60.0, Resources(3))])
    head = plan_head(JOB, Resources(1), RankShape(4, 4), {"m": made}, 0.0, stay_s=100.0)
    assert head is not None
    assert (head.start_s, head.free["m"], head.spare) == (0.0, Resources(5), Resources(1))


def test_whole_machines_are_waited_for():
    made: Calendar = Calendar(Resources(8))
    made.set_bookings([BookedSpan(ReservationId("ume", 1), 50.0, 60.0, Resources(3))])
    shape = RankShape(1, 1, 1)
    head = plan_head(JOB, Resources(1), shape, {"m": made}, 0.0, is_exclusive=True, stay_s=60.0)
    assert head is not None
    assert head.start_s == 60.0


def test_a_booking_that_the_task_would_reach_counts_when_another_machine_has_room():
    """It fits on the first machine until a booking is near, and later on the second."""
    first: Calendar = Calendar(Resources(1))
    first.set_bookings([BookedSpan(ReservationId("ume", 1), 100.0, 200.0, Resources(1))])
    second: Calendar = Calendar(Resources(1))
    second.add("task", Resources(1), 0.0, 80.0)
    pool = {"m1": first, "m2": second}
    head = plan_head(JOB, Resources(1), RankShape(2, 2), pool, 0.0, stay_s=30.0)
    assert head is not None
    assert head.start_s == 200.0

"""Seats: ranks lie on machines as the job asks for, and no more than fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ranks import SEATS_MAX, RankShape
from iriai.policy.placement.seats import Room, Seat, ranks_in, seats_of
from tests.support.naive_seats import FITS, SHAPES, lies, most_by_trying


def rooms(*fits: int) -> list[Room]:
    return [Room(f"m{number}", fit) for number, fit in enumerate(fits)]


def test_ranks_go_to_as_few_machines_as_hold_them():
    assert seats_of(rooms(2, 8, 4), RankShape(10, 10)) == [Seat("m1", 8), Seat("m2", 2)]


def test_of_machines_alike_the_preferred_come_first():
    assert seats_of(rooms(4, 4, 4), RankShape(5, 5)) == [Seat("m0", 4), Seat("m1", 1)]


def test_what_job_and_owner_prefer_goes_before_few_machines():
    preferred = [Room("small", 2, tier=0), Room("large", 8, tier=1)]

    assert seats_of(preferred, RankShape(4, 4)) == [Seat("small", 2), Seat("large", 2)]


def test_a_number_of_machines_spreads_the_ranks_evenly():
    assert seats_of(rooms(1, 2, 8), RankShape(5, 5, nodes=3)) == [
        Seat("m1", 2),
        Seat("m2", 2),
        Seat("m0", 1),
    ]
    assert seats_of(rooms(1, 1, 8), RankShape(5, 5, nodes=3)) == []


def test_ranks_on_each_machine_are_as_asked_for():
    assert seats_of(rooms(3, 4, 9), RankShape(8, 8, per_node=4)) == [Seat("m1", 4), Seat("m2", 4)]
    assert seats_of(rooms(3, 4, 9), RankShape(12, 12, per_node=4)) == []
    two = RankShape(8, 8, nodes=2, per_node=4)
    assert seats_of(rooms(4, 4, 4), two) == [Seat("m0", 4), Seat("m1", 4)]


def test_of_a_range_as_many_as_fit():
    assert ranks_in(rooms(3, 3), RankShape(2, 100)) == 6
    assert ranks_in(rooms(3, 3), RankShape(2, 5)) == 5
    assert ranks_in(rooms(3, 3), RankShape(7, 100)) == 0
    assert ranks_in(rooms(3, 3), RankShape(2, 100, per_node=2)) == 4


def test_no_attempt_has_more_seats_than_there_can_be():
    small = [Room(f"s{number}", 1) for number in range(SEATS_MAX)]
    both = [*small, Room("large", 8, tier=1)]

    assert ranks_in(both, RankShape(1, 60_000)) == SEATS_MAX + 7
    seats = seats_of(both, RankShape(SEATS_MAX + 7, SEATS_MAX + 7))
    assert (len(seats), seats[0]) == (SEATS_MAX, Seat("large", 8))


@given(FITS, SHAPES)
def test_as_many_ranks_as_in_any_other_way(fits, shape):
    assert ranks_in(rooms(*fits), shape) == most_by_trying(fits, shape)


@given(FITS, SHAPES, st.randoms(use_true_random=False))
def test_seats_are_what_was_asked_for_where_there_is_room(fits, shape, rng):
    there = [room._replace(tier=rng.randrange(3)) for room in rooms(*fits)]

    seats = seats_of(there, shape)

    fit = {room.machine: room.fit for room in there}
    assert all(seat.ranks <= fit[seat.machine] for seat in seats)
    assert len({seat.machine for seat in seats}) == len(seats)
    ranks = ranks_in(there, shape)
    assert lies(tuple(seat.ranks for seat in seats), ranks, shape) if seats else not ranks


@pytest.mark.parametrize("shape", [RankShape(3, 3), RankShape(3, 3, nodes=3)])
def test_nowhere_is_no_seat(shape):
    assert seats_of([], shape) == []

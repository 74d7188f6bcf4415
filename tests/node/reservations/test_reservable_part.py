"""What a machine's owner lets be reserved of it: how much at once, and by whom."""

from __future__ import annotations

import pytest

from iriai.model.reason import Reason, Rule
from iriai.model.reservable import Reservable
from iriai.model.reservation import BOOKINGS_MAX
from iriai.model.resources import Resources
from iriai.protocol.messages.reservations import NotBooked
from tests.node.booking_story import HOUR, confirm, hold, named, not_booked
from tests.node.lone_node import LoneNode
from tests.support.told import HOME, only

HALF = Reservable(0.5)


def refused(said) -> Reason:
    return only(said.home, NotBooked).reason


def test_more_than_the_part_is_refused_and_the_whole_machine_with_it():
    node = LoneNode(4, reservable=HALF)
    assert not_booked(hold(node, cpus=3)) is Rule.NOT_RESERVABLE
    reason = refused(hold(node))
    assert (reason.needed, reason.machine) == ("4 cpus", HOME)
    assert "2 cpus of it may be reserved" in reason.had
    hold(node, cpus=2)
    assert list(node.node.bookings.kept) == [named()]


def test_bookings_at_one_time_share_the_part():
    node = LoneNode(4, reservable=HALF)
    confirm(node, 1, cpus=1)
    reason = refused(hold(node, 2, HOUR / 2, HOUR, cpus=2))
    assert (reason.rule, reason.needed) == (Rule.NOT_RESERVABLE, "2 cpus")
    assert "1 cpu may be reserved" in reason.had
    hold(node, 3, 2 * HOUR, cpus=2)
    hold(node, 4, cpus=1)
    assert list(node.node.bookings.kept) == [named(1), named(3), named(4)]


def test_what_is_left_of_the_machine_is_for_tasks():
    node = LoneNode(4, reservable=HALF)
    confirm(node, cpus=2)
    node.run(1, cpus=2)
    assert len(node.node.calendar) == 1


def test_nothing_can_be_reserved_where_its_owner_says_so():
    for reservable in (Reservable(0.0), Reservable(by=())):
        node = LoneNode(4, reservable=reservable)
        assert "may be reserved" in refused(hold(node, cpus=1)).needed


@pytest.mark.parametrize(("by", "is_held"), [(("ann",), True), (("lab",), True), (("bob",), False)])
def test_by_users_and_groups_that_its_owner_names(by, is_held):
    node = LoneNode(4, reservable=Reservable(by=by))
    said = hold(node)
    assert bool(node.node.bookings.kept) is is_held
    assert is_held or "lab/ann is none of them" in refused(said).had


def test_the_broker_is_told_with_a_whole_report_unless_all_may_be_reserved():
    assert LoneNode(4, reservable=HALF).first.broker[0].reservable == HALF
    assert LoneNode(4).first.broker[0].reservable is None


def test_a_part_is_rounded_down():
    assert HALF.of(Resources(3, 1001, 1, (("licence", 3),))) == Resources(
        1, 500, 0, (("licence", 1),)
    )


def test_what_was_booked_before_the_owner_said_less_stays():
    node = LoneNode(4)
    confirm(node)
    came = LoneNode(4, reservable=HALF, incarnation=2, bookings=node.node.bookings.stored())
    assert list(came.node.bookings.kept) == [named()]
    assert not_booked(hold(came, 8, cpus=1)) is Rule.NOT_RESERVABLE


def test_a_reason_names_a_few_of_many():
    many = Reservable(by=tuple(f"user{number}" for number in range(BOOKINGS_MAX)))
    assert len(refused(hold(LoneNode(4, reservable=many))).needed) < 200

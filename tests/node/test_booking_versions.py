"""A later version of a booking: held and confirmed beside the one that counts, until that goes."""

from __future__ import annotations

import pytest

from iriai.model.claim import HOLD_S, Phase
from iriai.model.reason import Rule
from iriai.model.records import BookingsDropped, BookingStored
from iriai.model.reservation import BOOKINGS_MAX
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.node.reservations.kept_booking import SPANS_MAX
from iriai.protocol.messages.effects import TerminateAttempt
from iriai.protocol.messages.reservations import Book, Booked, NotBooked, Unbook
from iriai.protocol.messages.scheduling import Refusal
from tests.node.booking_story import (
    GRACE_S,
    HOUR,
    WAKE,
    again,
    begin,
    booked,
    booking,
    confirm,
    hold,
    inside,
    named,
    not_booked,
    opened,
    refusal,
    terminated,
    until,
)
from tests.node.lone_node import LoneNode
from tests.support.told import WALL_S, attempt, only


def free(node: LoneNode, version: int = 1, first: int = 0):
    return node.tell(Unbook(named(), version, first))


def kept(node: LoneNode) -> list[tuple[int, Phase]]:
    """The versions of the booking, with their phases."""
    [stored] = node.node.bookings.stored()
    later = stored.later
    first = (stored.version, stored.phase)
    return [first] if later is None else [first, (later.version, later.phase)]


def told_spans(node: LoneNode) -> list[tuple[float, float, int]]:
    """When it takes how many cpus, as the broker is told."""
    return [(each.starts_in_s, each.ends_in_s, each.resources.cpus) for each in node.bookings]


# --- held beside it ------------------------------------------------------------------------------


def test_a_later_version_is_held_beside_the_one_that_is_confirmed():
    node = booked()
    said = hold(node, start_s=2 * HOUR, version=2)
    assert only(said.home, Booked) == Booked(named(), 2, "ume", Phase.HELD)
    [stored] = [each.booking for each in said.records if isinstance(each, BookingStored)]
    assert (stored.version, stored.start_wall_s) == (1, WALL_S + HOUR)
    assert stored.later.start_wall_s == WALL_S + 2 * HOUR
    assert stored.later.held_until_wall_s == WALL_S + HOLD_S


def test_at_every_moment_it_takes_what_either_takes_and_not_both():
    node = booked(cpus=3)
    hold(node, start_s=0.5 * HOUR, length_s=HOUR, cpus=4, version=2)
    assert told_spans(node) == [
        (HOUR, 2 * HOUR, 3),
        (0.5 * HOUR, HOUR, 4),
        (HOUR, 1.5 * HOUR, 1),
    ]
    assert not_booked(hold(node, 8, 1.2 * HOUR, 0.2 * HOUR, cpus=1)) is Rule.RESERVED_AHEAD
    assert only(hold(node, 9, 1.6 * HOUR, 0.3 * HOUR, cpus=1).home, Booked)


def test_it_is_held_only_where_it_fits_beside_all_others():
    node = booked(cpus=4)
    confirm(node, 8, 3 * HOUR, cpus=1)
    said = hold(node, length_s=3 * HOUR, cpus=4, version=2)
    assert not_booked(said) is Rule.RESERVED_AHEAD
    assert node.node.bookings.stored()[0].later is None
    assert only(hold(node, length_s=3 * HOUR, cpus=3, version=2).home, Booked)


def test_a_hold_that_ends_leaves_the_booking_as_it_was():
    node = booked()
    hold(node, start_s=2 * HOUR, version=2)
    node.wait(HOLD_S)
    said = node.tell(WAKE)
    gone = only(said.home, NotBooked)
    assert (gone.version, gone.reason.rule) == (2, Rule.HOLD_EXPIRED)
    assert kept(node) == [(1, Phase.CONFIRMED)]
    assert told_spans(node) == [(HOUR - HOLD_S, 2 * HOUR - HOLD_S, 4)]


def test_a_later_version_that_is_given_up_leaves_the_booking_as_it_was():
    node = booked()
    hold(node, start_s=2 * HOUR, version=2)
    said = free(node, 2, first=2)
    assert only(said.home, NotBooked).version == 2
    assert kept(node) == [(1, Phase.CONFIRMED)]


def test_all_versions_go_at_once():
    node = booked()
    hold(node, start_s=2 * HOUR, version=2)
    said = free(node, 2)
    assert [type(each) for each in said.records] == [BookingsDropped]
    assert node.node.bookings.stored() == []


def test_there_are_no_more_versions_than_two():
    node = booked()
    hold(node, start_s=2 * HOUR, version=2)
    assert not_booked(hold(node, start_s=3 * HOUR, version=3)) is Rule.NOT_RESERVED
    assert kept(node) == [(1, Phase.CONFIRMED), (2, Phase.HELD)]


def test_a_later_version_is_confirmed_only_where_it_is_held():
    node = booked()
    said = hold(node, start_s=2 * HOUR, version=2, phase=Phase.CONFIRMED)
    assert not_booked(said) is Rule.NOT_RESERVED
    assert kept(node) == [(1, Phase.CONFIRMED)]


def test_what_a_message_says_of_a_later_version_counts_for_nothing():
    """A home cannot smuggle in a version that was never checked."""
    node = booked(8, 5 * HOUR)
    later = node.node.bookings.stored()[0]
    forged = booking(later=None)
    hold(node, start_s=2 * HOUR, version=2, number=8)
    [stored] = node.node.bookings.stored()
    said = node.tell(Book(booking(later=stored.later), HOLD_S))
    assert only(said.home, Booked)
    [_, mine] = node.node.bookings.stored()
    assert (mine.later, forged.later, later.later) == (None, None, None)


def test_versions_count_among_the_bookings_of_a_node():
    """So what a broker hears of all of them is bounded."""
    node = booked()
    limit = 2 * SPANS_MAX - 1
    checks = node.node.bookings._checks
    held = node.node.bookings.kept[named()]
    many = {named(n, f"h{n}"): held for n in range(BOOKINGS_MAX - limit + SPANS_MAX)}
    many[named()] = held
    asked = booking(start_s=2 * HOUR, version=2)
    refused = checks.refusal(Book(asked), held, many, node.instant())
    assert refused.rule is Rule.MACHINE_BUSY


# --- one takes the place of the other ------------------------------------------------------------


def modified(node: LoneNode, **changes) -> None:
    """The booking of version 1 becomes this."""
    confirm(node, version=2, **changes)
    assert kept(node) == [(1, Phase.CONFIRMED), (2, Phase.CONFIRMED)]
    said = free(node)
    assert only(said.home, NotBooked).version == 1
    assert kept(node) == [(2, Phase.CONFIRMED)]


def test_the_one_before_stays_until_its_home_frees_it():
    node = booked()
    modified(node, start_s=2 * HOUR, cpus=2)
    assert told_spans(node) == [(2 * HOUR, 3 * HOUR, 2)]
    until(node, HOUR)
    node.run(1, time_limit_s=60.0)
    assert attempt(1) in node.node.calendar


def test_both_are_there_after_a_restart():
    node = booked()
    confirm(node, start_s=2 * HOUR, version=2)
    came = again(node)
    assert kept(came) == [(1, Phase.CONFIRMED), (2, Phase.CONFIRMED)]
    free(came)
    assert told_spans(came) == [(2 * HOUR, 3 * HOUR, 4)]


def test_a_machine_that_has_less_drops_the_later_version_first():
    node = booked(cpus=2)
    hold(node, start_s=HOUR, cpus=4, version=2)
    stored = node.node.bookings.stored()
    came = LoneNode(2, incarnation=2, now_s=node.now_s, attached=False, bookings=stored)
    assert only(came.first.home, NotBooked).version == 2
    assert kept(came) == [(1, Phase.CONFIRMED)]


def test_the_next_modification_shows_that_the_last_one_counts():
    node = booked()
    confirm(node, start_s=2 * HOUR, version=2)
    hold(node, start_s=3 * HOUR, version=3)
    assert kept(node) == [(2, Phase.CONFIRMED), (3, Phase.HELD)]


# --- while it is open ----------------------------------------------------------------------------


def test_what_runs_inside_stays_there():
    node = opened()
    node.run(1, inside())
    begin(node)
    modified(node, length_s=2 * HOUR)
    assert node.node.held(attempt(1)).claim.reservation == named()
    assert node.node.bookings.kept[named()].is_open
    said = until(node, 2.5 * HOUR)
    assert terminated(said) == [], "its own limit ended it, which its launcher keeps"


def test_what_runs_inside_ends_with_the_earlier_end():
    node = opened()
    node.run(1, inside())
    begin(node)
    modified(node, length_s=0.5 * HOUR)
    said = until(node, 1.5 * HOUR - GRACE_S - 1.0)
    assert terminated(said) == [(attempt(1), EndCause.TIME_LIMIT)]


def test_it_cannot_give_less_than_what_runs_inside_uses():
    node = opened()
    node.run(1, inside(cpus=3))
    assert not_booked(hold(node, cpus=2, version=2)) is Rule.MACHINE_BUSY
    assert only(hold(node, cpus=3, version=2).home, Booked)


def test_what_starts_inside_meanwhile_has_room_in_both():
    node = opened()
    node.run(1, inside(cpus=1))
    hold(node, cpus=2, version=2)
    assert refusal(node.run(2, inside(cpus=2))) is Rule.MACHINE_BUSY
    assert not [e for e in node.run(3, inside(cpus=1)).home if isinstance(e, Refusal)]


def test_it_takes_more_of_what_is_free_only():
    node = opened(cpus=2)
    node.run(1, cpus=1, time_limit_s=60.0)
    assert not_booked(hold(node, cpus=4, version=2)) is Rule.MACHINE_BUSY
    modified(node, cpus=3)
    assert node.node.calendar.left_in(named()) == Resources(3)


def test_what_it_will_take_is_given_to_nobody_meanwhile():
    node = opened(cpus=2)
    hold(node, cpus=4, version=2)
    assert refusal(node.run(1, cpus=1, time_limit_s=60.0)) is Rule.RESERVED_AHEAD
    node.wait(HOLD_S)
    node.tell(WAKE)
    assert not [e for e in node.run(2, cpus=1, time_limit_s=60.0).home if isinstance(e, Refusal)]


def test_a_booking_that_ends_goes_on_with_its_later_version():
    node = opened()
    node.run(1, inside())
    begin(node)
    confirm(node, length_s=2 * HOUR, version=2)
    until(node, 2 * HOUR)
    assert kept(node) == [(2, Phase.CONFIRMED)]
    assert node.node.bookings.kept[named()].is_open


def test_a_later_version_that_is_only_held_waits_when_the_booking_ends():
    node = opened()
    until(node, 2 * HOUR - 5.0)
    hold(node, length_s=2 * HOUR, version=2)
    until(node, 2 * HOUR)
    assert kept(node) == [(2, Phase.HELD)]
    assert not node.node.bookings.kept[named()].is_open


def test_what_ran_inside_goes_on_beside_one_that_begins_later():
    """Its home does not ask for that; a step of the clock may bring it about."""
    node = opened()
    node.run(1, inside(time_limit_s=60.0))
    begin(node)
    modified(node, start_s=3 * HOUR)
    assert node.node.held(attempt(1)).claim.reservation is None
    assert not [e for e in node.settle().others if isinstance(e, TerminateAttempt)]


@pytest.mark.parametrize("version", [0, 3, 2**40])
def test_versions_of_nothing_are_freed_for_nothing(version):
    node = booked()
    said = node.tell(Unbook(named(), version, version))
    assert only(said.home, NotBooked).version == version
    assert kept(node) == [(1, Phase.CONFIRMED)]

"""Bookings of a node: held, confirmed, opened and ended, by its clock and after a restart."""

from __future__ import annotations

import msgspec
import pytest

from iriai.model.claim import HOLD_MAX_S, HOLD_S, Phase
from iriai.model.reason import Rule
from iriai.model.records import BookingsDropped, BookingStored, ClaimStored, Drained
from iriai.model.reservation import AHEAD_MAX_S, BOOKINGS_MAX, LENGTH_MAX_S, LENGTH_MIN_S, Booking
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.node.reservations.booking_checks import NAMES_MAX, OF_HOME_MAX, STARTED_MAX_S
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.messages.effects import (
    LaunchAttempt,
    Persist,
    Send,
    TerminateAttempt,
)
from iriai.protocol.messages.reservations import Book, Booked, NotBooked, Unbook
from iriai.protocol.messages.scheduling import Run
from tests.node.booking_story import (
    DAY,
    GRACE_S,
    HOUR,
    WAKE,
    YAMA,
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
from tests.node.lone_node import LoneNode, exited
from tests.support.told import HOME, WALL_S, attempt, only

# --- held and confirmed --------------------------------------------------------------------------


def test_a_booking_is_durable_before_it_is_told():
    node = LoneNode()
    effects = node.node.handle(Book(booking()), node.instant())
    [stored] = [each for each in effects if isinstance(each, Persist)]
    [told] = [each for each in effects if isinstance(each, Send)]
    assert effects.index(stored) < effects.index(told)
    assert stored.urgent
    assert told.message == Booked(named(), 1, HOME, Phase.HELD)
    assert stored.record.booking.resources == Resources(4), "the whole machine"
    assert stored.record.booking.held_until_wall_s == WALL_S + HOLD_S


def test_a_booking_that_is_asked_for_again_is_told_again_and_lasts_no_longer():
    node = LoneNode()
    hold(node)
    node.wait(HOLD_S - 1.0)
    said = hold(node)
    assert only(said.home, Booked).phase is Phase.HELD
    assert said.records == []
    node.wait(1.0)
    assert not_booked(node.tell(WAKE)) is Rule.HOLD_EXPIRED


def test_a_confirmed_booking_stays():
    node = LoneNode()
    said = confirm(node)
    assert only(said.records, BookingStored).booking.phase is Phase.CONFIRMED
    said = hold(node, phase=Phase.CONFIRMED)
    assert only(said.home, Booked).phase is Phase.CONFIRMED
    assert said.records == []
    assert only(hold(node).home, Booked).phase is Phase.CONFIRMED
    said = until(node, HOLD_MAX_S)
    assert said.home == []
    assert [each.reservation for each in node.node.bookings.stored()] == [named()]


def test_a_hold_ends_by_itself_and_cannot_be_confirmed_then():
    node = LoneNode()
    hold(node)
    node.wait(HOLD_S)
    said = node.tell(WAKE)
    assert only(said.records, BookingsDropped).reservations == (named(),)
    assert not_booked(said) is Rule.HOLD_EXPIRED
    assert node.bookings == ()
    assert not_booked(hold(node, phase=Phase.CONFIRMED)) is Rule.HOLD_EXPIRED
    assert only(hold(node).home, Booked)


def test_a_confirmation_at_the_very_end_is_too_late():
    node = LoneNode()
    hold(node)
    node.wait(HOLD_S)
    said = hold(node, phase=Phase.CONFIRMED)
    assert [type(each) for each in said.home] == [NotBooked, NotBooked]


def test_a_hold_lasts_no_longer_than_any_may():
    node = LoneNode()
    hold(node, hold_s=1e9)
    node.wait(HOLD_MAX_S)
    assert not_booked(node.tell(WAKE)) is Rule.HOLD_EXPIRED


@pytest.mark.parametrize("version", [1, 3])
def test_no_other_version_comes_while_one_is_held(version):
    node = LoneNode()
    hold(node, version=2)
    said = hold(node, version=version, start_s=9 * HOUR)
    refused = only(said.home, NotBooked)
    assert (refused.version, refused.reason.rule) == (version, Rule.NOT_RESERVED)
    assert said.records == []
    [kept] = node.node.bookings.stored()
    assert (kept.version, kept.start_wall_s) == (2, WALL_S + HOUR)


def test_an_older_version_never_comes_back():
    node = booked(version=2)
    assert not_booked(hold(node, version=1, start_s=9 * HOUR)) is Rule.NOT_RESERVED
    [kept] = node.node.bookings.stored()
    assert (kept.version, kept.later) == (2, None)


def test_what_is_given_back_is_gone_and_told_each_time():
    node = booked()
    said = node.tell(Unbook(named(), 1))
    assert only(said.records, BookingsDropped).reservations == (named(),)
    assert only(said.home, NotBooked).version == 1
    assert node.bookings == ()
    said = node.tell(Unbook(named(), 1))
    assert said.records == []
    assert only(said.home, NotBooked).version == 1


def test_an_older_version_that_is_given_back_takes_no_newer_one_with_it():
    node = booked(version=2)
    said = node.tell(Unbook(named(), 1))
    assert only(said.home, NotBooked).version == 1
    assert said.records == []
    assert node.node.bookings.kept


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (booking(length_s=-HOUR), Rule.NOT_RESERVED),
        (booking(length_s=0.0), Rule.NOT_RESERVED),
        (booking(length_s=LENGTH_MIN_S - 1.0), Rule.NOT_RESERVED),
        (booking(length_s=LENGTH_MAX_S + 1.0), Rule.NOT_RESERVED),
        (booking(start_s=-HOUR), Rule.NOT_RESERVED),
        (booking(start_s=-STARTED_MAX_S - 1.0), Rule.NOT_RESERVED),
        (booking(start_s=AHEAD_MAX_S + 1.0), Rule.NOT_RESERVED),
        (booking(start_s=1e18), Rule.NOT_RESERVED),
        (booking(cpus=0), Rule.NOT_RESERVED),
        (booking(users=("x" * NAMES_MAX,)), Rule.NOT_RESERVED),
        (booking(cpus=5), Rule.NO_MACHINE_LARGE_ENOUGH),
        (booking(phase=Phase.CONFIRMED), Rule.HOLD_EXPIRED),
        (booking(phase=Phase.STARTED), Rule.HOLD_EXPIRED),
    ],
    ids=str,
)
def test_what_a_machine_does_not_keep(asked, rule):
    node = LoneNode()
    said = node.tell(Book(asked))
    assert not_booked(said) is rule
    assert said.records == []
    assert not node.node.bookings.kept


def test_a_named_resource_that_the_machine_lacks():
    node = LoneNode()
    asked = msgspec.structs.replace(booking(), resources=Resources(1, named=(("licence", 1),)))
    assert not_booked(node.tell(Book(asked))) is Rule.NO_MACHINE_LARGE_ENOUGH


def test_named_resources_are_kept_as_what_they_are_together():
    node = LoneNode()
    many = tuple((f"licence-{number}", 0) for number in range(1000))
    asked = msgspec.structs.replace(booking(), resources=Resources(1, named=many))
    assert only(node.tell(Book(asked)).records, BookingStored).booking.resources == Resources(1)

    node = LoneNode(is_checked=False)
    node.node.calendar.set_capacity(Resources(4, named=(("disk", 10),)))
    twice = Resources(1, named=(("disk", 10), ("disk", 10)))
    asked = msgspec.structs.replace(booking(), resources=twice)
    assert not_booked(node.tell(Book(asked))) is Rule.NO_MACHINE_LARGE_ENOUGH


def test_a_home_has_so_many_bookings_confirmed_or_not():
    node = LoneNode(is_checked=False)
    for number in range(OF_HOME_MAX):
        said = hold(node, number, (number + 1) * HOUR, LENGTH_MIN_S, hold_s=HOLD_MAX_S)
        assert only(said.home, Booked)
    hold(node, 3, 4 * HOUR, LENGTH_MIN_S, phase=Phase.CONFIRMED)
    later_s = (OF_HOME_MAX + 9) * HOUR
    assert not_booked(hold(node, 999, later_s)) is Rule.MACHINE_BUSY
    assert only(hold(node, 999, later_s, home=YAMA).home, Booked)
    node.tell(Unbook(named(3), 1))
    assert only(hold(node, 1000, later_s + DAY).home, Booked)


def test_a_machine_keeps_so_many():
    many = [
        booking(number, (number + 1) * HOUR, LENGTH_MIN_S, cpus=1, phase=Phase.CONFIRMED)
        for number in range(BOOKINGS_MAX)
    ]
    node = LoneNode(bookings=many, is_checked=False)
    assert len(node.bookings) == BOOKINGS_MAX
    assert not_booked(hold(node, 9999, 1.5 * HOUR)) is Rule.MACHINE_BUSY


def test_a_machine_keeps_nothing_for_those_whose_tasks_it_does_not_run():
    node = LoneNode(judge_user=lambda home, user, wall_s: f"not {user} of {home}")
    assert not_booked(hold(node, home=YAMA)) is Rule.USER_NOT_ALLOWED
    assert only(hold(node).home, Booked), "its own home has decided already"


def test_a_drained_machine_keeps_nothing_new():
    node = LoneNode(drained=Drained("it smells", "operator", WALL_S))
    assert not_booked(hold(node)) is Rule.DRAINED


def test_what_runs_is_not_displaced():
    node = LoneNode()
    node.run(1, cpus=4, time_limit_s=2 * HOUR)
    assert not_booked(hold(node)) is Rule.MACHINE_BUSY
    assert only(hold(node, start_s=3 * HOUR).home, Booked)


def test_nor_is_what_started_long_after_its_grant():
    node = LoneNode()
    node.run(1, cpus=4, time_limit_s=HOUR)
    node.now_s = HOUR / 2
    begin(node)
    assert not_booked(hold(node, start_s=1.25 * HOUR)) is Rule.MACHINE_BUSY
    assert only(hold(node, start_s=1.75 * HOUR).home, Booked)


def test_nor_is_what_nobody_knows_the_end_of():
    node = LoneNode()
    node.run(1, cpus=1)
    assert not_booked(hold(node, start_s=DAY)) is Rule.MACHINE_BUSY
    assert only(hold(node, start_s=DAY, cpus=3).home, Booked)


def test_two_bookings_do_not_have_the_same_cpus():
    node = booked(cpus=3)
    assert not_booked(hold(node, 8, 1.5 * HOUR, cpus=2)) is Rule.RESERVED_AHEAD
    assert only(hold(node, 8, 2 * HOUR, cpus=2).home, Booked)
    assert only(hold(node, 9, 1.5 * HOUR, LENGTH_MIN_S, cpus=1).home, Booked)


# --- steps of the wall clock ---------------------------------------------------------------------


def test_a_clock_that_is_put_forward_opens_a_booking_at_once():
    node = booked()
    node.step_clock(HOUR)
    node.tell(WAKE)
    [told] = node.bookings
    assert (told.left, told.ends_in_s) == (Resources(4), HOUR)


def test_or_ends_it():
    node = booked()
    node.step_clock(2 * HOUR)
    said = node.tell(WAKE)
    assert only(said.records, BookingsDropped)
    assert node.bookings == ()


def test_a_clock_that_is_put_back_lets_a_booking_come_later():
    node = booked()
    node.step_clock(-HOUR)
    until(node, HOUR)
    assert node.bookings[0].left is None
    assert node.bookings[0].starts_in_s == HOUR
    until(node, 2 * HOUR)
    assert node.bookings[0].left == Resources(4)


def test_an_open_booking_stays_open():
    node = opened()
    node.run(1, inside())
    begin(node)
    node.step_clock(-HOUR)
    node.wait(1.0)
    node.tell(WAKE)
    [told] = node.bookings
    assert (told.left, told.ends_in_s) == (Resources(3), 2 * HOUR - 1.0)
    assert refusal(node.run(2, time_limit_s=60.0)) is Rule.MACHINE_BUSY
    assert only(node.run(3, inside()).others, LaunchAttempt)


def test_what_is_inside_ends_when_the_clock_is_put_to_the_end():
    node = opened()
    node.run(1, inside())
    begin(node)
    node.step_clock(2 * HOUR)
    said = node.tell(WAKE)
    assert terminated(said) == [(attempt(1), EndCause.TIME_LIMIT)]
    assert only(said.others, TerminateAttempt).grace_s == GRACE_S
    assert node.node.calendar.free == Resources(3)


def test_who_has_to_leave_leaves_by_the_new_clock():
    node = booked()
    node.run(1, cpus=4, kill_grace_s=GRACE_S)
    begin(node)
    node.step_clock(1800.0)
    node.tell(WAKE)
    [changed] = node.idle.changed
    assert changed.ends_in_s == pytest.approx(1800.0 - END_SLACK_S)
    said = until(node, 1800.0 - END_SLACK_S - GRACE_S)
    assert terminated(said) == [(attempt(1), EndCause.EVICTED)]


def test_a_clock_that_drifts_a_little_changes_nothing():
    node = booked()
    version = node.idle.version
    node.step_clock(0.04)
    node.tell(WAKE)
    assert node.idle.version == version
    node.step_clock(0.02)
    node.tell(WAKE)
    assert node.bookings[0].starts_in_s == pytest.approx(HOUR - 0.06)


def test_a_machine_with_bookings_looks_at_its_clock_now_and_then():
    node = booked()
    assert node.node.bookings.next_s == pytest.approx(60.0)


# --- a restart -----------------------------------------------------------------------------------


def test_a_held_booking_is_held_for_the_rest():
    node = LoneNode()
    hold(node)
    node.wait(4.0)
    came = again(node)
    assert [each.reservation for each in came.bookings] == [named()]
    came.wait(HOLD_S - 4.1)
    assert came.tell(WAKE).home == []
    came.wait(0.1)
    assert not_booked(came.tell(WAKE)) is Rule.HOLD_EXPIRED


def test_one_whose_time_is_over_has_ended():
    node = LoneNode()
    hold(node)
    node.wait(HOLD_S)
    came = again(node)
    assert not_booked(came.first) is Rule.HOLD_EXPIRED
    assert only(came.first.records, BookingsDropped)
    assert not_booked(hold(came, phase=Phase.CONFIRMED)) is Rule.HOLD_EXPIRED


def test_a_clock_that_was_put_back_meanwhile_makes_no_hold_longer_than_any():
    node = LoneNode()
    hold(node)
    came = LoneNode(bookings=[_later(each) for each in node.node.bookings.stored()])
    came.wait(HOLD_MAX_S)
    assert not_booked(came.tell(WAKE)) is Rule.HOLD_EXPIRED


def _later(stored: Booking) -> Booking:
    return msgspec.structs.replace(stored, held_until_wall_s=WALL_S + DAY)


def test_a_confirmed_booking_is_kept():
    node = booked()
    node.run(1, cpus=4, kill_grace_s=GRACE_S)
    begin(node)
    came = again(node, 1)
    assert only(hold(came, phase=Phase.CONFIRMED).home, Booked).phase is Phase.CONFIRMED
    said = until(came, HOUR - END_SLACK_S - GRACE_S)
    assert terminated(said) == [(attempt(1), EndCause.EVICTED)]


def test_an_open_booking_has_what_is_inside():
    node = opened()
    node.run(1, inside(cpus=2))
    begin(node)
    came = again(node, 1)
    [told] = came.bookings
    assert told.left == Resources(2)
    assert came.node.calendar.inside(attempt(1)) == named()
    assert only(came.run(2, inside(cpus=2)).others, LaunchAttempt)
    said = until(came, 2 * HOUR - GRACE_S - END_SLACK_S / 2)
    assert terminated(said) == [(attempt(number), EndCause.TIME_LIMIT) for number in (1, 2)]


def test_an_open_booking_without_a_task_opens_again():
    came = again(opened())
    assert came.bookings[0].left == Resources(4)


def test_what_ended_meanwhile_is_over():
    node = opened()
    node.run(1, inside(cpus=2))
    begin(node)
    node.now_s = 3 * HOUR
    came = again(node)
    assert only(came.first.records, BookingsDropped).reservations == (named(),)
    assert came.bookings == ()
    assert came.node.calendar.inside(attempt(1)) is None
    assert terminated(came.first) == [(attempt(1), EndCause.TIME_LIMIT)]
    came.tell(exited(1, EndCause.TIME_LIMIT))
    assert came.node.calendar.free == Resources(4)


def test_a_claim_whose_booking_is_not_kept_any_more_is_stored_as_inside_none():
    node = opened()
    node.run(1, inside(cpus=2))
    begin(node)
    came = again(node, 1, bookings=[])
    assert only(came.first.records, ClaimStored).claim.reservation is None
    assert [claim.reservation for claim in came.node.claims()] == [None]


def test_what_never_started_inside_is_ended_although_its_home_asks_again():
    node = opened()
    node.run(1, inside(cpus=2))
    node.now_s = 3 * HOUR
    came = again(node)
    said = came.tell(Run(attempt(1), inside(cpus=2), None))
    assert refusal(said) is Rule.NOT_RESERVED
    assert came.node.calendar.free == Resources(4)


def test_a_task_whose_booking_is_gone_is_an_ordinary_one():
    node = opened()
    node.run(1, inside(cpus=2))
    begin(node)
    came = again(node, 1, bookings=())
    assert came.node.calendar.free == Resources(2)


def test_a_machine_that_came_back_smaller_tells_what_it_no_longer_has():
    node = booked(cpus=3)
    confirm(node, 8, 1.5 * HOUR, cpus=1)
    came = LoneNode(3, bookings=node.node.bookings.stored(), incarnation=2)
    assert only(came.first.home, NotBooked).reservation == named(8)
    assert [each.reservation for each in came.bookings] == [named(7)]


def test_all_bookings_are_told_to_a_new_broker():
    node = booked()
    node.node.resend_report()
    node.settle()
    assert [each.reservation for each in node.bookings] == [named()]
    node.run(1, time_limit_s=60.0)
    assert node.idle.bookings is None, "it knows them"


def test_a_machine_without_bookings_says_so_to_a_new_broker_alone():
    node = LoneNode()
    assert node.idle.bookings is None
    node.node.resend_report()
    node.settle()
    assert node.idle.bookings == ()

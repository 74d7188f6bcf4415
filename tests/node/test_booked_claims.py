"""What starts beside the bookings of a node and inside them, and what has to leave for them."""

from __future__ import annotations

import msgspec
import pytest

from iriai.model.claim import HOLD_MAX_S, Phase
from iriai.model.ids import AttemptId
from iriai.model.reason import Rule
from iriai.model.records import BookingsDropped, ClaimStored
from iriai.model.reservation import EVICTABLE_MIN_S
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.messages.effects import (
    LaunchAttempt,
    TerminateAttempt,
)
from iriai.protocol.messages.reservations import Booked, Unbook
from iriai.protocol.messages.scheduling import Accepted, MatchTurn, Refusal, Run
from tests.node.booking_story import (
    DAY,
    GRACE_S,
    HOUR,
    WAKE,
    YAMA,
    begin,
    booked,
    confirm,
    freeze,
    hold,
    inside,
    named,
    not_booked,
    opened,
    refusal,
    terminated,
    thaw,
    until,
)
from tests.node.lone_node import LoneNode, exited
from tests.node.turn_story import FIRST, GANG, SECOND, TurnStory
from tests.support.told import WALL_S, attempt, only, spec

# --- ordinary tasks beside a booking -------------------------------------------------------------


def test_a_task_that_ends_in_time_starts_before_a_booking():
    node = booked()
    limit_s = HOUR - GRACE_S - END_SLACK_S - 1.0
    said = node.run(1, cpus=4, time_limit_s=limit_s, kill_grace_s=GRACE_S)
    assert only(said.others, LaunchAttempt).spec.time_limit_s == limit_s
    assert only(said.records, ClaimStored).claim.gone_by_wall_s is None


def test_one_that_may_last_into_it_is_refused_with_what_would_fit():
    node = booked()
    limit_s = HOUR - GRACE_S - END_SLACK_S + 1.0
    said = node.run(1, cpus=1, time_limit_s=limit_s, kill_grace_s=GRACE_S)
    reason = only(said.home, Refusal).reason
    assert reason.rule is Rule.RESERVED_AHEAD
    assert reason.needed == "to end before ume-r7 begins in 1h00m"
    assert reason.had.endswith("59m45s would fit")


def test_one_beside_it_starts():
    node = booked(cpus=3)
    assert only(node.run(1, cpus=1, evictable=False).others, LaunchAttempt)
    assert refusal(node.run(3, cpus=1, evictable=False)) is Rule.RESERVED_AHEAD


def test_a_task_without_a_limit_leaves_for_a_booking():
    node = booked()
    said = node.run(1, cpus=4, kill_grace_s=GRACE_S)
    claim = only(said.records, ClaimStored).claim
    assert claim.gone_by_wall_s == WALL_S + HOUR - END_SLACK_S
    [running] = node.idle.began
    assert running.ends_in_s == pytest.approx(HOUR - END_SLACK_S)
    begin(node)
    early_s = HOUR - END_SLACK_S - GRACE_S
    assert terminated(until(node, early_s - 0.1)) == []
    said = until(node, early_s)
    assert terminated(said) == [(attempt(1), EndCause.EVICTED)]
    assert only(said.others, TerminateAttempt).grace_s == GRACE_S
    assert terminated(until(node, early_s + 1.0)) == [], "it is told once"
    node.tell(exited(1, EndCause.EVICTED, ran_s=early_s))
    until(node, HOUR)
    assert node.bookings[0].left == Resources(4)


def test_one_with_a_limit_does_so_if_its_user_agrees():
    node = booked()
    said = node.run(1, time_limit_s=2 * HOUR, evictable=True, kill_grace_s=GRACE_S)
    assert only(said.records, ClaimStored).claim.gone_by_wall_s is not None


def test_one_whose_user_does_not_agree_waits():
    node = booked()
    assert refusal(node.run(1, evictable=False)) is Rule.RESERVED_AHEAD


def test_nothing_starts_for_less_than_a_minute():
    node = booked()
    least_s = EVICTABLE_MIN_S + GRACE_S + END_SLACK_S
    node.now_s = HOUR - least_s + 1.0
    assert refusal(node.run(1, kill_grace_s=GRACE_S)) is Rule.RESERVED_AHEAD
    node.now_s = HOUR - least_s
    assert only(node.run(2, kill_grace_s=GRACE_S).others, LaunchAttempt)


def test_a_task_that_is_only_held_leaves_too():
    node = booked()
    job = spec(cpus=4, kill_grace_s=GRACE_S)
    run = Run(attempt(1), job, node.capabilities[0], phase=Phase.HELD, hold_s=HOLD_MAX_S)
    node.tell(run)
    node.tell(msgspec.structs.replace(run, phase=Phase.CONFIRMED, capability=None))
    said = until(node, HOUR - END_SLACK_S - GRACE_S)
    assert refusal(said) is Rule.RESERVED_AHEAD
    until(node, HOUR)
    assert node.bookings[0].left == Resources(4)


def test_a_task_stays_on_once_the_booking_that_it_was_to_leave_for_is_given_back():
    node = booked()
    hold(node, 8, 5 * HOUR, hold_s=HOLD_MAX_S)
    hold(node, 8, 5 * HOUR, phase=Phase.CONFIRMED)
    node.run(1, cpus=4, kill_grace_s=GRACE_S)
    said = node.tell(Unbook(named(7), 1))
    assert only(said.records, ClaimStored).claim.gone_by_wall_s == WALL_S + 5 * HOUR - END_SLACK_S
    assert [each.attempt for each in node.idle.changed] == [attempt(1)]
    said = node.tell(Unbook(named(8), 1))
    assert only(said.records, ClaimStored).claim.gone_by_wall_s is None
    assert terminated(until(node, 6 * HOUR)) == []


def two_gangs_before_a_booking(**changes) -> TurnStory:
    """Each takes all four cpus in a row of its own, and leaves for the booking; so does the next.

    `changes` are of the second.
    """
    story = TurnStory()
    for number, start_s in ((7, HOUR), (8, 5 * HOUR)):
        hold(story.node, number, start_s, cpus=1, hold_s=HOLD_MAX_S)
        hold(story.node, number, start_s, cpus=1, phase=Phase.CONFIRMED)
    story.say(matched=(MatchTurn(story.node.capabilities[0], FIRST, 0),))
    story.run(1, GANG)
    story.told({1: FIRST}, matched=(MatchTurn(story.node.capabilities[0], SECOND, 1),))
    story.run(2, GANG, **changes)
    story.told({1: FIRST, 2: SECOND})
    leaves = {story.held(number).claim.gone_by_wall_s for number in (1, 2)}
    assert leaves == {WALL_S + HOUR - END_SLACK_S}
    return story


def test_tasks_that_take_turns_hold_no_more_once_a_booking_is_given_back():
    story = two_gangs_before_a_booking()
    said = story.node.tell(Unbook(named(7), 1))
    stored = [each.claim for each in said.records if isinstance(each, ClaimStored)]
    assert {each.gone_by_wall_s for each in stored} == {WALL_S + 5 * HOUR - END_SLACK_S}
    assert (len(stored), story.free.cpus) == (2, 0)
    story.node.tell(Unbook(named(8), 1))
    assert story.free.cpus == 0
    assert [story.held(number).claim.gone_by_wall_s for number in (1, 2)] == [None, None]


def test_the_one_that_stays_longest_then_holds_the_cpus_of_the_rows():
    story = two_gangs_before_a_booking(time_limit_s=2 * HOUR, evictable=True)
    story.node.tell(Unbook(named(7), 1))
    story.node.tell(Unbook(named(8), 1))
    calendar = story.node.node.calendar
    assert [calendar.held_by(attempt(number)).cpus for number in (1, 2)] == [4, 0]
    assert not_booked(hold(story.node, 9, 10 * DAY)) is Rule.MACHINE_BUSY


def test_nothing_is_fetched_in_advance_into_a_booking():
    node = booked()
    node.run(1, cpus=4, time_limit_s=600.0)
    late = Run(attempt(2), spec(cpus=1), node.ahead[0])
    assert refusal(node.tell(late)) is Rule.RESERVED_AHEAD
    soon = Run(attempt(3), spec(cpus=1, time_limit_s=600.0), node.ahead[0])
    assert only(node.tell(soon).home, Accepted).is_ahead


def test_what_was_fetched_in_advance_does_not_begin_before_a_booking_that_came_since():
    node = LoneNode()
    node.run(1, cpus=4, time_limit_s=600.0)
    node.tell(Run(attempt(2), spec(cpus=1, time_limit_s=2 * HOUR), node.ahead[0]))
    confirm(node)
    node.wait(1.0)
    said = node.tell(exited(1))
    assert refusal(said) is Rule.RESERVED_AHEAD
    assert [each for each in said.others if isinstance(each, LaunchAttempt)] == []


# --- inside --------------------------------------------------------------------------------------


def test_an_open_booking_keeps_its_resources_for_its_users():
    node = opened(cpus=3)
    [told] = node.bookings
    assert (told.resources, told.left) == (Resources(3), Resources(3))
    assert (told.starts_in_s, told.ends_in_s) == (0.0, HOUR)
    assert node.node.calendar.free == Resources(1)
    assert len(node.capabilities) == 4, "those inside need some as well"
    assert refusal(node.run(1, cpus=2)) is Rule.MACHINE_BUSY
    assert only(node.run(2, cpus=1).others, LaunchAttempt)
    said = node.run(3, inside(cpus=2))
    assert only(said.records, ClaimStored).claim.reservation == named()
    [told] = node.bookings
    assert told.left == Resources(1)
    [running] = node.idle.began
    assert running.reservation == named()
    assert refusal(node.run(4, inside(cpus=2))) is Rule.MACHINE_BUSY
    node.tell(exited(3))
    assert node.bookings[0].left == Resources(3)


def test_a_task_inside_ends_with_the_booking():
    node = opened()
    node.now_s = 1.5 * HOUR
    said = node.run(1, inside(time_limit_s=DAY))
    limit_s = HOUR / 2 - GRACE_S - END_SLACK_S
    assert only(said.others, LaunchAttempt).spec.time_limit_s == limit_s
    assert only(said.records, ClaimStored).claim.limit_s == limit_s
    begin(node)
    assert terminated(until(node, 2 * HOUR - GRACE_S - END_SLACK_S)) == [], "its limit does that"
    node.tell(exited(1, EndCause.TIME_LIMIT, ran_s=limit_s))
    said = until(node, 2 * HOUR)
    assert only(said.records, BookingsDropped).reservations == (named(),)
    assert node.bookings == ()
    assert node.node.calendar.free == Resources(4)


def test_its_own_limit_counts_where_it_is_shorter():
    node = opened()
    said = node.run(1, inside(time_limit_s=60.0))
    assert only(said.others, LaunchAttempt).spec.time_limit_s == 60.0


def test_what_its_limit_does_not_end_is_ended():
    node = opened()
    node.run(1, inside())
    begin(node)
    freeze(node, SuspendReason.OWNER)
    said = until(node, 2 * HOUR - GRACE_S - END_SLACK_S / 2)
    assert terminated(said) == [(attempt(1), EndCause.TIME_LIMIT)]
    said = until(node, 2 * HOUR)
    assert terminated(said) == []
    assert only(said.records, BookingsDropped)
    assert only(said.records, ClaimStored).claim.reservation is None, "it is still there"
    assert node.node.calendar.free == Resources(3)


def test_a_task_inside_that_starts_late_is_cut_to_what_is_left_then():
    node = opened()
    run = Run(attempt(1), inside(), node.capabilities[0], phase=Phase.HELD, hold_s=100.0)
    node.tell(run)
    node.wait(60.0)
    for phase in (Phase.CONFIRMED, Phase.STARTED):
        said = node.tell(msgspec.structs.replace(run, phase=phase, capability=None))
    limit_s = HOUR - 60.0 - GRACE_S - END_SLACK_S
    assert only(said.others, LaunchAttempt).spec.time_limit_s == limit_s
    assert said.records[-1].claim.limit_s == limit_s, "a restart must find it"


@pytest.mark.parametrize(
    ("job", "had"),
    [
        (spec("bob", reservation=named()), "bob is none"),
        (spec("ann", reservation=named(8)), "there is none"),
        (spec("ann", reservation=named(7, YAMA)), "there is none"),
    ],
)
def test_whoever_has_no_booking_has_no_place_inside(job, had):
    node = opened()
    reason = only(node.run(1, job).home, Refusal).reason
    assert (reason.rule, reason.had) == (Rule.NOT_RESERVED, had)


def test_no_other_home_has_a_place_inside():
    node = opened()
    run = Run(AttemptId(YAMA, 1, 0, 1), inside(), node.capabilities[0], 60.0)
    assert refusal(node.tell(run)) is Rule.NOT_RESERVED


@pytest.mark.parametrize("changes", [{"users": ("bob", "cat")}, {"group": "lab"}])
def test_whoever_was_named_has_a_place_inside(changes):
    node = opened(**changes)
    assert only(node.run(1, inside(user="bob")).others, LaunchAttempt)


def test_a_place_inside_is_there_from_the_start_to_the_end():
    node = booked()
    reason = only(node.run(1, inside()).home, Refusal).reason
    assert (reason.rule, reason.had) == (Rule.NOT_RESERVED, "it begins in 1h00m")
    until(node, 2 * HOUR - GRACE_S - END_SLACK_S)
    assert refusal(node.run(2, inside())) is Rule.NOT_RESERVED
    until(node, 2 * HOUR)
    assert refusal(node.run(3, inside())) is Rule.NOT_RESERVED


def test_what_is_only_held_does_not_open():
    node = LoneNode()
    hold(node, start_s=5.0)
    until(node, 6.0)
    assert node.bookings[0].left is None
    assert refusal(node.run(1, inside())) is Rule.NOT_RESERVED
    assert refusal(node.run(2, time_limit_s=60.0)) is Rule.RESERVED_AHEAD
    hold(node, start_s=5.0, phase=Phase.CONFIRMED)
    assert node.bookings[0].left == Resources(4)
    assert only(node.run(3, inside()).others, LaunchAttempt)


def test_a_whole_machine_is_not_given_beside_an_open_booking():
    node = opened(cpus=1)
    assert refusal(node.run(1, spec(cpus=1, exclusive=True))) is Rule.RESERVED_AHEAD
    assert refusal(node.run(2, inside(exclusive=True))) is Rule.MACHINE_BUSY


def test_a_task_that_is_fetched_in_advance_has_a_place_inside_or_none():
    node = opened(cpus=3)
    node.run(1, inside(cpus=3))
    assert refusal(node.tell(Run(attempt(2), inside(), node.ahead[0]))) is Rule.MACHINE_BUSY


def test_tasks_go_on_when_an_open_booking_is_given_back():
    node = opened()
    node.run(1, inside(cpus=2))
    begin(node)
    said = node.tell(Unbook(named(), 1))
    assert terminated(said) == []
    assert only(said.records, ClaimStored).claim.reservation is None
    assert node.node.calendar.free == Resources(2)
    assert [each.reservation for each in node.idle.changed] == [None]
    assert only(node.run(2, cpus=2).others, LaunchAttempt)
    assert not_booked(hold(node, 8, 1.9 * HOUR)) is Rule.MACHINE_BUSY
    assert only(hold(node, 8, 2 * HOUR, cpus=2).home, Booked)


def test_what_has_not_started_inside_never_does():
    node = opened()
    node.run(1, inside(cpus=2))
    old = Run(attempt(2), inside(cpus=2), node.capabilities[0], 30.0)
    assert [each for each in node.tell(old).others if isinstance(each, LaunchAttempt)] == []
    said = node.tell(Unbook(named(), 1))
    assert only(said.home, Refusal).attempt == attempt(2)
    assert node.node.calendar.free == Resources(2)


# --- what is pushed into a booking ---------------------------------------------------------------


def test_a_suspended_task_leaves_for_a_booking():
    node = LoneNode()
    node.run(1, cpus=4, time_limit_s=1800.0, kill_grace_s=GRACE_S)
    begin(node)
    confirm(node)
    freeze(node, SuspendReason.OWNER)
    assert terminated(until(node, HOUR - GRACE_S - END_SLACK_S - 1.0)) == []
    said = until(node, HOUR - GRACE_S - END_SLACK_S)
    assert terminated(said) == [(attempt(1), EndCause.EVICTED)]


def test_the_one_that_was_granted_last_leaves_first():
    node = LoneNode()
    for number in (1, 2, 3):
        node.run(number, cpus=1, time_limit_s=1800.0, kill_grace_s=GRACE_S)
        begin(node, number)
        node.wait(1.0)
    confirm(node, cpus=2)
    for number in (1, 2, 3):
        freeze(node, SuspendReason.OWNER, number)
    said = until(node, HOUR - GRACE_S - END_SLACK_S)
    assert terminated(said) == [(attempt(3), EndCause.EVICTED)]


def test_one_that_went_on_later_leaves_before_it():
    node = LoneNode()
    node.run(1, cpus=2, kill_grace_s=GRACE_S)
    begin(node)
    freeze(node, SuspendReason.HIGHER_QUEUE)
    confirm(node, cpus=2)
    node.wait(1.0)
    assert only(node.run(2, cpus=2, evictable=False).others, LaunchAttempt)
    begin(node, 2)
    node.now_s = 60.0
    thaw(node, SuspendReason.HIGHER_QUEUE)
    said = until(node, HOUR - GRACE_S - END_SLACK_S)
    assert terminated(said) == [(attempt(1), EndCause.EVICTED)]


def test_a_booking_opens_once_nothing_is_in_its_way():
    node = booked()
    node.run(1, cpus=1, time_limit_s=600.0, kill_grace_s=GRACE_S)
    begin(node)
    node.step_clock(HOUR)
    said = node.tell(WAKE)
    assert terminated(said) == [(attempt(1), EndCause.EVICTED)]
    assert node.bookings[0].left is None
    assert refusal(node.run(2, inside())) is Rule.NOT_RESERVED
    assert refusal(node.run(3, time_limit_s=60.0)) is Rule.RESERVED_AHEAD
    node.tell(exited(1, EndCause.EVICTED))
    assert node.bookings[0].left == Resources(4)
    assert only(node.run(4, inside()).others, LaunchAttempt)

"""A node of a cluster whose reservations come above all that runs (docs/spec/017, section 7)."""

from __future__ import annotations

from iriai.model.claim import Phase
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.messages.effects import LaunchAttempt
from iriai.protocol.messages.reservations import Booked
from tests.node.booking_story import (
    GRACE_S,
    HOUR,
    begin,
    confirm,
    hold,
    not_booked,
    refusal,
    terminated,
    until,
)
from tests.node.lone_node import LoneNode, exited
from tests.support.told import attempt, only

ENDING_S = GRACE_S + END_SLACK_S


def above() -> LoneNode:
    """A task without a limit that may not be evicted runs, on all of the machine."""
    node = LoneNode(reserves_above=True)
    node.run(1, cpus=4, evictable=False, kill_grace_s=GRACE_S)
    begin(node)
    return node


def test_what_runs_is_evicted_in_time_for_the_start():
    node = above()
    assert only(confirm(node).home, Booked).phase is Phase.CONFIRMED
    assert terminated(until(node, HOUR - ENDING_S - 0.1)) == []
    assert terminated(until(node, HOUR - ENDING_S)) == [(attempt(1), EndCause.EVICTED)]
    node.tell(exited(1, EndCause.EVICTED, ran_s=HOUR - 1.0))
    until(node, HOUR)
    assert node.bookings[0].left == Resources(4)


def test_not_for_what_is_only_held():
    node = above()
    assert only(hold(node, hold_s=600.0, start_s=100.0).home, Booked).phase is Phase.HELD
    assert terminated(until(node, 101.0)) == []


def test_nor_more_than_needed():
    node = LoneNode(reserves_above=True)
    for number in (1, 2):
        node.run(number, cpus=2, evictable=False, kill_grace_s=GRACE_S)
        begin(node, number)
    confirm(node, cpus=2)
    said = until(node, HOUR - ENDING_S)
    assert terminated(said) == [(attempt(2), EndCause.EVICTED)], "which was granted last"


def test_one_that_starts_at_once_opens_when_they_are_gone():
    node = above()
    said = confirm(node, start_s=0.0)
    assert terminated(said) == [(attempt(1), EndCause.EVICTED)]
    assert node.bookings[0].left is None
    node.now_s = 3.0
    node.tell(exited(1, EndCause.EVICTED, ran_s=3.0))
    assert node.bookings[0].left == Resources(4)


def test_it_does_not_come_above_other_bookings():
    node = above()
    confirm(node, 7)
    assert not_booked(hold(node, 8, start_s=1.5 * HOUR)) is Rule.RESERVED_AHEAD
    assert only(confirm(node, 9, start_s=2 * HOUR).home, Booked)


def test_what_comes_later_fits_beside_it():
    node = LoneNode(reserves_above=True)
    confirm(node)
    assert refusal(node.run(1, evictable=False)) is Rule.RESERVED_AHEAD
    assert only(node.run(3, time_limit_s=60.0).others, LaunchAttempt)


def test_without_that_policy_what_runs_stays():
    node = LoneNode()
    node.run(1, cpus=4, evictable=False)
    assert not_booked(hold(node)) is Rule.MACHINE_BUSY

"""A node tells homes of bookings in which nothing can run: they seek another one (017, 4)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from iriai.model.claim import Phase
from iriai.model.owner import OwnerWord
from iriai.model.reason import Rule
from iriai.node.reservations.unable_bookings import AGAIN_S
from iriai.policy.owner.owner_steps import OwnerSteps
from iriai.protocol.messages.effects import OwnerSaid
from iriai.protocol.messages.reservations import Booked
from tests.node.booking_story import HOUR, WAKE, booked, confirm, hold
from tests.node.lone_node import LoneNode
from tests.node.test_giving_way import DESK, Desk
from tests.support.told import Told, only


def drained(node: LoneNode) -> Told:
    node.node.drain("dust", "kim", node.instant())
    return node.settle()


def rules(said: Told) -> list[Rule | None]:
    """Why nothing can run in bookings that homes were told of."""
    told = [each for each in said.home if isinstance(each, Booked)]
    return [each.unable.rule if each.unable else None for each in told]


def test_a_drain_is_told_and_its_end():
    node = booked()
    told = only(drained(node).home, Booked)
    assert (told.phase, told.unable.rule) == (Phase.CONFIRMED, Rule.DRAINED)
    assert node.node.resume("kim", node.instant())
    assert rules(node.settle()) == [None]


def test_it_is_told_again_while_it_lasts():
    node = booked()
    drained(node)
    node.wait(AGAIN_S / 2)
    assert rules(node.tell(WAKE)) == []
    node.wait(AGAIN_S / 2)
    assert rules(node.tell(WAKE)) == [Rule.DRAINED]


def test_each_home_that_asks_is_told():
    node = booked()
    drained(node)
    assert rules(hold(node, phase=Phase.CONFIRMED)) == [Rule.DRAINED]


def test_what_is_only_held_is_of_no_interest():
    node = LoneNode()
    hold(node)
    assert rules(drained(node)) == []


def test_nothing_is_told_of_what_is_well():
    node = booked()
    node.wait(10 * AGAIN_S)
    assert rules(node.tell(WAKE)) == []


# --- its owner -----------------------------------------------------------------------------------


def reserved_desk(policy: OwnerSteps = DESK) -> Desk:
    """A desk whose owner has been away for long, with a booking that is confirmed."""
    desk = Desk(policy)
    desk.after(2 * HOUR)
    confirm(desk.node, start_s=5 * HOUR)
    return desk


def used_for(desk: Desk, seconds: float) -> list[Rule | None]:
    """Its owner works for so long; returns what homes were told."""
    found = []
    for _ in range(int(seconds / 60.0)):
        found += rules(desk.sign())
        found += rules(desk.after(60.0))
    return found


def test_an_owner_who_is_back_for_a_moment_changes_nothing():
    desk = reserved_desk()
    assert used_for(desk, DESK.vacate_s / 2) == []


def test_an_owner_who_is_back_for_good_is_told_and_that_they_left():
    desk = reserved_desk()
    told = used_for(desk, DESK.vacate_s + 120.0)
    assert set(told) == {Rule.OWNER_ACTIVE}
    assert rules(desk.after(DESK.continue_s + 1.0)) == [None]


def test_what_an_owner_exempts_is_not_replaced():
    desk = reserved_desk(replace(DESK, exempt=("ann",)))
    assert used_for(desk, DESK.vacate_s + 120.0) == []


def test_an_owner_who_wants_the_machine_at_once_is_told():
    desk = reserved_desk()
    said = desk.tell(OwnerSaid(OwnerWord.HERE, inf, vacates=True))
    assert rules(said) == [Rule.OWNER_ACTIVE]

"""A machine with an owner that sleeps: tasks leave before, and nothing starts just after."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from iriai.model.owner import OwnerWord
from iriai.model.reason import Rule
from iriai.model.state import EndCause
from iriai.node.suspending.giving_way import SLEEPS, SLEEPS_WITHIN_S
from iriai.protocol.messages.effects import MachineSleeps, MachineWakes, OwnerSaid
from tests.node.test_giving_way import DESK, Desk, ends, quiet_desk

DELAY_S = 4.0
ONLY_SUSPENDS = replace(DESK, vacate_s=inf)


def test_tasks_leave_before_it_sleeps_within_the_time_that_there_is():
    desk = quiet_desk(ONLY_SUSPENDS)
    desk.run(2, kill_grace_s=1.0)
    said = desk.tell(MachineSleeps(DELAY_S))
    assert ends(said) == [(1, EndCause.EVICTED, DELAY_S), (2, EndCause.EVICTED, 1.0)]
    assert not desk.node.node.owner.is_left
    assert (desk.unavailable().rule, desk.unavailable().had) == (Rule.OWNER_ACTIVE, SLEEPS)


def test_it_sleeps_without_tasks_at_once():
    desk = Desk()
    desk.tell(MachineSleeps(DELAY_S))
    assert desk.node.node.owner.is_left


def test_tasks_of_exempt_users_sleep_with_it():
    desk = quiet_desk(replace(DESK, exempt=("ann",)))
    assert ends(desk.tell(MachineSleeps(DELAY_S))) == []
    assert desk.node.node.owner.is_left


def test_when_it_wakes_nobody_knows_who_is_there():
    desk = quiet_desk()
    desk.tell(MachineSleeps(DELAY_S))
    desk.node.wait(8 * 3600.0)
    desk.tell(MachineWakes())
    assert "without a sign" in desk.unavailable().needed
    desk.after(DESK.continue_s - 1.0)
    assert desk.unavailable() is not None
    desk.after(1.0)
    assert desk.unavailable() is None


def test_one_that_does_not_sleep_after_all_begins_anew():
    desk = quiet_desk()
    desk.tell(MachineSleeps(DELAY_S))
    desk.after(SLEEPS_WITHIN_S)
    assert "without a sign" in desk.unavailable().needed
    desk.after(DESK.continue_s)
    assert desk.unavailable() is None


def test_an_owner_who_is_away_is_away_after_it_too():
    desk = quiet_desk()
    desk.tell(OwnerSaid(OwnerWord.AWAY, inf))
    desk.tell(MachineSleeps(DELAY_S))
    assert desk.unavailable().had == SLEEPS
    desk.tell(MachineWakes())
    assert desk.unavailable() is None


def test_waking_without_sleep_is_a_sign():
    desk = quiet_desk()
    desk.tell(MachineWakes())
    assert desk.frozen == {1: True}

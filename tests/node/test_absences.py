"""A machine with an owner learns when they are away, and reports for how long they stay so."""

from __future__ import annotations

from iriai.model.owner import OwnerWord, SignKind
from iriai.model.records import AbsencesLearnt
from iriai.node.suspending.giving_way import LEARNT_EVERY_S
from iriai.protocol.messages.effects import OwnerSaid
from tests.node.lone_node import LoneNode
from tests.node.test_giving_way import DESK, Desk, quiet_desk

DAY_S = 86_400.0


def by_day(desk: Desk) -> None:
    """Its owner is there for half a day."""
    desk.tell(OwnerSaid(OwnerWord.HERE, DAY_S / 2, False))
    desk.after(DAY_S / 2)
    desk.after(DESK.continue_s)


def learnt(told) -> list[AbsencesLearnt]:
    return [each for each in told.records if isinstance(each, AbsencesLearnt)]


def test_its_report_says_for_how_long_the_owner_stays_away():
    desk = quiet_desk()
    assert 0.0 < desk.node.idle.expected_idle_s < DAY_S
    desk.sign()
    assert desk.node.idle.expected_idle_s == 0.0


def test_its_ad_says_it_too():
    desk = quiet_desk()
    ad = desk.node.node.agreement.attributes(1.8e9)
    assert ad["ExpectedIdle"] == int(desk.node.idle.expected_idle_s)


def test_a_machine_without_an_owner_policy_says_nothing():
    node = LoneNode(4)
    assert node.idle.expected_idle_s is None
    assert "ExpectedIdle" not in node.node.agreement.attributes(1.8e9)


def test_nights_are_expected_after_some():
    desk = quiet_desk()
    for _ in range(10):
        by_day(desk)
        desk.after(DAY_S / 2 - DESK.continue_s)
    by_day(desk)
    assert 0.3 * DAY_S < desk.node.idle.expected_idle_s < 0.7 * DAY_S


def test_nothing_is_learnt_of_returns_from_a_watch_that_begins():
    seen, started = quiet_desk(), quiet_desk()
    for desk, kind in ((seen, SignKind.TERMINAL), (started, SignKind.START)):
        for _ in range(20):
            desk.last.clear()
            desk.sign(kind)
            desk.after(DESK.continue_s)
            desk.after(1_800.0)
        desk.last.clear()
        desk.sign(SignKind.START)
        desk.after(DESK.continue_s)
    told, untold = (desk.node.idle.expected_idle_s for desk in (seen, started))
    assert 2 * told < untold


def test_who_says_here_has_come_back():
    said, quiet = quiet_desk(), quiet_desk()
    for _ in range(20):
        for desk in (said, quiet):
            desk.after(1_800.0)
        said.tell(OwnerSaid(OwnerWord.HERE, 600.0, False))
        said.after(600.0)
        said.after(DESK.continue_s)
        quiet.after(600.0 + DESK.continue_s)
    said.sign()
    quiet.sign()
    for desk in (said, quiet):
        desk.after(DESK.continue_s)
    assert 2 * said.node.idle.expected_idle_s < quiet.node.idle.expected_idle_s


def test_what_was_learnt_is_stored_once_an_hour_and_outlives_the_daemon():
    desk = quiet_desk()
    stored = []
    for _ in range(12):
        desk.node.wait(LEARNT_EVERY_S / 4)
        stored += learnt(desk.sign())
        stored += learnt(desk.after(DESK.continue_s))
    assert 3 <= len(stored) <= 4
    again = quiet_desk()
    first_s = again.node.idle.expected_idle_s
    again = Desk()
    again.node.node.owner.remember(stored[-1])
    again.after(DESK.continue_s)
    assert again.node.idle.expected_idle_s < first_s
    assert again.node.node.owner.learnt == stored[-1]

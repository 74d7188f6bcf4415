"""What a machine with an owner says in its ad of its use."""

from __future__ import annotations

from dataclasses import replace

from iriai.classad.volatile_attributes import load_attributes, state_attributes
from iriai.model.owner import MachineUse, OwnerWord, SensorState, SignKind
from iriai.model.reason import Reason, Rule
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import LoadMeasured, OwnerSaid
from tests.node.lone_node import LoneNode, exited
from tests.node.test_giving_way import BROKEN, DESK, WORKS, Desk

MUCH = LoadMeasured(3.0, 1.25, 8.0, 9.0)
"""By the times of the terminals somebody typed eight seconds ago."""


def ad(desk: Desk | LoneNode) -> dict:
    node = desk.node if isinstance(desk, Desk) else desk
    return node.node.agreement.attributes(0.0)


def test_how_long_nobody_was_there_is_told_by_the_sensors():
    desk = Desk()
    desk.after(100.0)
    desk.sign(SignKind.INPUT)
    desk.after(50.0)
    desk.sign(SignKind.TERMINAL)
    desk.after(20.0)
    desk.tell(MUCH)
    found = ad(desk)
    assert (found["KeyboardIdle"], found["ConsoleIdle"], found["OwnerLoad"]) == (20, 70, 1.25)
    assert desk.node.idle.keyboard_idle_s == 20.0
    assert desk.node.idle.use == MachineUse(70.0)


def test_before_anybody_came_it_is_the_time_of_watching():
    desk = Desk()
    desk.after(30.0)
    desk.tell(MUCH)
    assert ad(desk)["KeyboardIdle"] == 30


def test_a_battery_is_nobody_s_hand():
    desk = Desk()
    desk.after(100.0)
    desk.sign(SignKind.BATTERY)
    desk.tell(MUCH)
    assert ad(desk)["KeyboardIdle"] == 100


def test_where_no_sensor_works_the_times_of_terminals_are_all_that_is_known():
    desk = Desk()
    desk.sensors = BROKEN
    desk.tell(desk.noticed())
    desk.tell(MUCH)
    assert (ad(desk)["KeyboardIdle"], ad(desk)["ConsoleIdle"]) == (8, 9)
    plain = LoneNode(4)
    plain.tell(MUCH)
    assert (ad(plain)["KeyboardIdle"], ad(plain)["ConsoleIdle"]) == (8, 9)
    assert plain.idle.use == MachineUse(9.0)


def test_the_battery_is_in_the_ad_where_it_is_looked_at():
    desk = Desk()
    assert "OnBattery" not in ad(desk)
    for holds in (True, False):
        desk.sensors = (*WORKS, SensorState(SignKind.BATTERY, True, "BAT0", holds))
        desk.tell(desk.noticed())
        assert ad(desk)["OnBattery"] is holds
        assert desk.node.idle.use.on_battery is holds
    desk.sensors = (*WORKS, SensorState(SignKind.BATTERY, False, "there is none", True))
    desk.tell(desk.noticed())
    assert "OnBattery" not in ad(desk)


def test_states_of_a_desk_over_a_day():
    desk = Desk(replace(DESK, vacate_s=60.0, continue_s=50.0))
    told = [ad(desk)]
    desk.after(50.0)
    told.append(ad(desk))
    desk.run(1)
    told.append(ad(desk))
    desk.sign()
    told.append(ad(desk))
    assert desk.node.idle.use.all_stand
    desk.after(40.0)
    desk.sign()
    desk.after(20.0)
    told.append(ad(desk))
    desk.tell(exited(1, EndCause.EVICTED))
    desk.tell(OwnerSaid(OwnerWord.AWAY, 100.0))
    told.append(ad(desk))
    assert [(each["State"], each["Activity"]) for each in told] == [
        ("Owner", "Idle"),
        ("Unclaimed", "Idle"),
        ("Claimed", "Busy"),
        ("Claimed", "Suspended"),
        ("Preempting", "Vacating"),
        ("Unclaimed", "Idle"),
    ]


def test_tasks_of_exempt_users_are_busy_beside_the_owner():
    desk = Desk(replace(DESK, exempt=("ann",)))
    desk.after(DESK.continue_s)
    desk.run(1, user="ann")
    desk.run(2, user="bob")
    desk.sign()
    assert (ad(desk)["State"], ad(desk)["Activity"]) == ("Claimed", "Busy")


def test_a_drained_machine_and_one_without_a_launcher():
    drained = Reason(Rule.DRAINED, "iriai resume ume", "ann drained it: disk", "ume")
    lacks = Reason(Rule.NO_LAUNCHER, "a launcher that answers", "none is connected", "ume")
    words = [
        tuple(state_attributes(reason, None, is_claimed=is_claimed).values())
        for reason in (drained, lacks)
        for is_claimed in (True, False)
    ]
    assert words == [
        ("Drained", "Retiring"),
        ("Drained", "Idle"),
        ("Claimed", "Busy"),
        ("Owner", "Idle"),
    ]


def test_what_nobody_measures_is_undefined():
    assert load_attributes(1.0, 0.5, None, MachineUse()) == {
        "LoadAvg": 1.0,
        "CondorLoadAvg": 0.5,
        "OwnerLoad": 0.5,
    }


def test_conditions_do_not_change_the_words_about_somebody_who_types():
    desk = Desk()
    desk.sign(SignKind.TERMINAL)
    words = []
    for kind in (SignKind.BATTERY, SignKind.TERMINAL, SignKind.BATTERY):
        desk.after(10.0)
        desk.sign(kind)
        words.append(desk.unavailable().had)
    assert words == ["its owner typed at a terminal"] * 3
    for _ in range(40):
        desk.after(10.0)
        desk.sign(SignKind.BATTERY)
    assert desk.unavailable().had == "it runs on its battery"


def test_a_condition_sees_nobody_so_a_machine_without_other_sensors_is_in_use():
    desk = Desk()
    desk.sensors = (SensorState(SignKind.PROGRAM, True), SensorState(SignKind.INPUT, False))
    desk.tell(desk.noticed())
    desk.after(10 * DESK.continue_s)
    assert desk.unavailable().had == "none of its sensors works"

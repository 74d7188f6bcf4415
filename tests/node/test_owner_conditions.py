"""A machine whose steps of giving way are expressions, in place of delays."""

from __future__ import annotations

from math import inf

import pytest

from iriai.config.sections import OwnerSection
from iriai.machine.owner_section import owner_policy
from iriai.model.ad import machine_ad
from iriai.model.owner import OwnerWord, SignKind
from iriai.model.reason import Rule
from iriai.model.state import EndCause
from iriai.node.suspending.giving_way import IDLE_MAX_S
from iriai.protocol.messages.effects import LoadMeasured, MachineWakes, OwnerSaid
from tests.node.test_giving_way import BROKEN, Desk, ends
from tests.support.told import instant, spec


def desk_of(*, quiet_s: float = 400.0, **steps) -> Desk:
    """Nobody has been there for a while."""
    policy = owner_policy(OwnerSection(**steps))
    assert policy is not None
    desk = Desk(policy, ad=machine_ad({}))
    desk.after(quiet_s)
    return desk


def watch(desk: Desk, seconds: float) -> list[tuple[int, EndCause, float]]:
    """Let time pass, in the steps of a look; return what is ended."""
    found = []
    for _ in range(int(seconds / 5)):
        found += ends(desk.after(5))
    return found


def test_a_task_stands_while_the_keyboard_was_used_a_minute_ago_and_waits_five_to_go_on():
    desk = desk_of(suspend="KeyboardIdle < 60", resume="KeyboardIdle > 300")
    desk.run(1)
    desk.sign()
    assert desk.frozen == {1: True}
    watch(desk, 295)
    assert desk.frozen == {1: True}
    watch(desk, 10)
    assert desk.frozen == {1: False}


CONDITIONS = [each for each in SignKind if each.is_condition]


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_condition_is_no_hand_at_a_keyboard_and_a_sign_of_the_owner_all_the_same(kind):
    frozen = {}
    for name in ("KeyboardIdle", "ConsoleIdle", "OwnerIdle"):
        desk = desk_of(suspend=f"{name} < 60", resume=f"{name} > 300")
        desk.run(1)
        desk.sign(kind)
        frozen[name] = desk.frozen[1]
    assert frozen == {"KeyboardIdle": False, "ConsoleIdle": False, "OwnerIdle": True}


@pytest.mark.parametrize(
    ("kind", "idle_s"),
    [
        (SignKind.TERMINAL, (20, 420, 20)),
        (SignKind.INPUT, (20, 20, 20)),
        (SignKind.SESSION, (20, 20, 20)),
        (SignKind.GPU, (420, 420, 20)),
        (SignKind.START, (20, 20, 20)),
    ],
)
def test_expressions_and_the_ad_mean_the_same_by_a_name(kind, idle_s):
    desk = desk_of(suspend="KeyboardIdle < 10")
    desk.sign(kind)
    desk.after(20.0)
    desk.tell(LoadMeasured(0.0, 0.0, 5.0, 5.0))
    assert idle_of(desk) == idle_s
    ad = desk.node.node.agreement.attributes(0.0)
    assert (ad["KeyboardIdle"], ad["ConsoleIdle"], "OwnerIdle" in ad) == (*idle_s[:2], False)


def test_who_was_there_by_no_sensor_counts_as_hands():
    desk = desk_of(suspend="KeyboardIdle < 10")
    desk.tell(MachineWakes())
    assert idle_of(desk) == (0, 0, 0)
    desk.after(100.0)
    desk.tell(OwnerSaid(OwnerWord.HERE, 50.0, False))
    desk.after(20.0)
    assert idle_of(desk) == (0, 0, 0)
    desk.tell(OwnerSaid(None, inf, False))
    desk.after(5.0)
    assert idle_of(desk) == (5, 5, 5)
    desk.tell(OwnerSaid(OwnerWord.HERE, 50.0, False))
    desk.after(70.0)
    assert idle_of(desk) == (20, 20, 20)


def test_while_the_owner_is_away_by_their_word_nobody_is_there_and_then_what_was_seen_counts():
    desk = desk_of(suspend="KeyboardIdle < 60")
    desk.tell(OwnerSaid(OwnerWord.AWAY, 50.0, False))
    desk.after(40.0)
    desk.sign(SignKind.INPUT)
    assert min(idle_of(desk)) == IDLE_MAX_S
    desk.after(20.0)
    assert idle_of(desk) == (20, 20, 20)


def test_without_a_sensor_that_works_somebody_may_be_there():
    desk = desk_of(suspend="KeyboardIdle < 60")
    desk.sensors = BROKEN
    desk.tell(desk.noticed())
    assert idle_of(desk) == (0, 0, 0)


def idle_of(desk: Desk) -> tuple[int, ...]:
    """What expressions see of it now."""
    values = desk.node.node.owner._attributes(instant(desk.node.now_s))
    return tuple(values[name] for name in ("KeyboardIdle", "ConsoleIdle", "OwnerIdle"))


def test_each_job_is_judged_by_itself():
    desk = desk_of(suspend="KeyboardIdle < 60 && TARGET.RequestCpus >= 2")
    desk.run(1, cpus=2)
    desk.run(2, cpus=1)
    desk.sign()
    assert desk.frozen == {1: True, 2: False}


def test_the_load_of_others_suspends_once_it_lasted():
    desk = desk_of(suspend="CpuBusyTime > 120", resume="OwnerLoad <= 0.3")
    desk.run(1)
    desk.tell(LoadMeasured(3.0, 2.0, None))
    watch(desk, 120)
    assert desk.frozen == {1: False}
    watch(desk, 10)
    assert desk.frozen == {1: True}
    desk.tell(LoadMeasured(0.1, 0.1, None))
    watch(desk, 5)
    assert desk.frozen == {1: False}


def test_what_stood_for_long_enough_is_vacated_and_then_ended():
    desk = desk_of(
        suspend="KeyboardIdle < 60",
        vacate='Activity == "Suspended" && CurrentTime - EnteredCurrentActivity > 30',
        discard='Activity == "Vacating" && CurrentTime - EnteredCurrentActivity > 5',
    )
    desk.run(1)
    desk.sign()
    assert watch(desk, 30) == []
    assert watch(desk, 30) == [(1, EndCause.EVICTED, 10.0), (1, EndCause.EVICTED, 0.0)]


def test_a_delay_beside_an_expression_counts_from_when_the_task_was_suspended():
    desk = desk_of(suspend="KeyboardIdle < 60", reclaim=20.0, vacate=40.0)
    desk.run(1)
    desk.sign()
    watch(desk, 15)
    assert desk.reclaimed == []
    watch(desk, 10)
    assert desk.reclaimed == [1]
    assert [number for number, _, _ in watch(desk, 20)] == [1]


def test_an_expression_may_say_which_tasks_a_sign_ends():
    desk = desk_of(profile="desk", vacate="TARGET.RequestCpus >= 2 && KeyboardIdle < 60")
    desk.run(1, cpus=2)
    desk.run(2, cpus=1)
    assert [number for number, _, _ in ends(desk.sign())] == [1]
    assert desk.frozen[2]
    watch(desk, 305)
    assert not desk.frozen[2]


@pytest.mark.parametrize("broken", ["KeyboardIdle < TARGET.Patience", '"a" + 1'])
def test_an_expression_without_a_value_for_a_job_counts_as_in_use_and_is_named(broken):
    desk = desk_of(suspend="KeyboardIdle < 60", vacate=broken)
    desk.run(1)
    watch(desk, 10)
    assert desk.frozen == {1: True}
    assert desk.node.node.owner.judge.problems == {
        "vacate": f"{broken} is {'error' if '+' in broken else 'undefined'}"
    }


def test_nothing_starts_where_it_would_be_suspended_at_once():
    desk = desk_of(suspend="KeyboardIdle < 60 || TARGET.RequestCpus > 2")
    (refused,) = desk.node.run(1, spec(cpus=3)).home
    assert refused.reason.rule is Rule.OWNER_ACTIVE
    desk.sign(SignKind.INPUT)
    assert desk.unavailable().rule is Rule.OWNER_ACTIVE


def test_the_word_of_the_owner_outranks_each_expression():
    desk = desk_of(suspend="KeyboardIdle < 60", resume="KeyboardIdle > 300")
    desk.run(1)
    desk.tell(OwnerSaid(OwnerWord.HERE, 900.0, False))
    watch(desk, 600)
    assert desk.frozen == {1: True}
    desk.tell(OwnerSaid(OwnerWord.AWAY, 900.0, False))
    watch(desk, 5)
    assert desk.frozen == {1: False}
    desk.sign()
    assert desk.frozen == {1: False}

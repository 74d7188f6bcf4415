"""A machine whose owner comes and goes: the test plays the launcher by its standing order."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from iriai.config.sections import OwnerSection
from iriai.machine.owner_section import owner_policy
from iriai.model.admission_rules import ALL
from iriai.model.owner import (
    WORD_S_MAX,
    OwnerWord,
    SensorState,
    Sign,
    SignKind,
    StandingOrder,
)
from iriai.model.reason import Rule
from iriai.model.records import OwnerWordGiven
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.policy.owner.owner_steps import PROFILES, OwnerSteps
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    AttemptStarted,
    FreezeAttempt,
    LaunchAttempt,
    LauncherAttached,
    OwnerNoticed,
    OwnerSaid,
    Part,
    TerminateAttempt,
    Wake,
    WatchOwner,
)
from iriai.protocol.messages.scheduling import Refusal
from iriai.protocol.messages.suspension import Suspended
from tests.node.lone_node import LoneNode
from tests.support.told import WALL_S, Told, attempt, instant, spec

DESK = PROFILES["desk"]
OWNER = SuspendReason.OWNER
WORKS = (SensorState(SignKind.TERMINAL, True),)
BROKEN = (SensorState(SignKind.TERMINAL, False, "no inotify"),)


class Desk:
    """A node with an owner policy, and what its launcher would do."""

    def __init__(self, policy: OwnerSteps = DESK, **options) -> None:
        self.node = LoneNode(4, owner=policy, **options)
        self.launcher = StandingOrder()
        self.sensors = WORKS
        self.last: dict[SignKind, float] = {}
        self.reclaimed: list[int] = []
        self.orders: dict[int, tuple[SuspendReason, ...]] = {}
        self.obey(self.node.first)
        self.sign(SignKind.START)

    def tell(self, *events) -> Told:
        said = self.node.tell(*events)
        self.obey(said)
        return said

    @property
    def frozen(self) -> dict[int, bool]:
        """Which tasks stand, by the launcher."""
        return {
            number: bool(reasons) or self.launcher.keeps(attempt(number))
            for number, reasons in self.orders.items()
        }

    def obey(self, said: Told) -> None:
        for effect in said.others:
            match effect:
                case LaunchAttempt(attempt=each):
                    self.orders[each.number] = ()
                    self.tell(AttemptStarted(each, WALL_S + self.node.now_s))
                case FreezeAttempt(each, number, reasons):
                    self.orders[each.number] = reasons
                    self.tell(AttemptFrozen(each, number, reasons, 0.0, self.node.now_s))
                case WatchOwner(number, suspends, exempt, signs, are_over, _, reclaimed, lowers):
                    self.reclaimed = [each.number for each in reclaimed]
                    if self.launcher.take(
                        number, exempt, signs, suspends=suspends, are_over=are_over, lowers=lowers
                    ):
                        self.tell(self.noticed())

    def noticed(self) -> OwnerNoticed:
        last = tuple(Sign(kind, at_s) for kind, at_s in self.last.items())
        return OwnerNoticed(self.launcher.signs, last, self.sensors)

    def sign(self, kind: SignKind = SignKind.TERMINAL) -> Told:
        self.seen(kind)
        return self.tell(self.noticed())

    def seen(self, kind: SignKind = SignKind.TERMINAL) -> None:
        """The launcher sees a sign; its node has not heard of it."""
        self.launcher.sign()
        self.last[kind] = self.node.now_s

    def after(self, seconds: float) -> Told:
        self.node.wait(seconds)
        said = self.node.tell(Wake(Part.NODE))
        self.obey(said)
        return said

    def run(self, number: int, **changes) -> Told:
        said = self.node.run(number, spec(**changes))
        self.obey(said)
        return said

    def reasons(self, number: int):
        held = self.node.node.held(attempt(number))
        return () if held.suspension is None else held.suspension.reasons

    def unavailable(self):
        return self.node.node.unavailable()


def ends(said: Told) -> list[tuple[int, EndCause, float]]:
    return [
        (each.attempt.number, each.cause, each.grace_s)
        for each in said.others
        if isinstance(each, TerminateAttempt)
    ]


def test_nothing_starts_before_the_sensors_have_looked_for_long_enough():
    desk = Desk()
    reason = desk.unavailable()
    assert (reason.rule, reason.needed) == (Rule.OWNER_ACTIVE, "5m00s without a sign of its owner")
    desk.after(DESK.continue_s)
    assert desk.unavailable() is None
    desk.run(1)
    assert desk.frozen == {1: False}


def quiet_desk(policy: OwnerSteps = DESK, **options) -> Desk:
    """Nobody has been there for long enough, and a task runs."""
    desk = Desk(policy, **options)
    desk.after(policy.continue_s)
    desk.run(1)
    return desk


def test_a_task_stands_at_a_sign_and_goes_on_once_there_was_none_for_long_enough():
    desk = quiet_desk()
    desk.sign()
    assert (desk.frozen, desk.reasons(1)) == ({1: True}, (OWNER,))
    assert desk.unavailable().rule is Rule.OWNER_ACTIVE
    desk.after(200)
    desk.sign()
    desk.after(DESK.continue_s - 1)
    assert desk.frozen == {1: True}
    desk.after(1)
    assert (desk.frozen, desk.reasons(1), desk.unavailable()) == ({1: False}, (), None)


def test_its_home_hears_what_was_seen_of_the_owner():
    desk = quiet_desk()
    told = desk.sign(SignKind.INPUT).home
    assert [each.seen for each in told if isinstance(each, Suspended)] == [
        "its owner used an input device"
    ]
    desk.sign(SignKind.TERMINAL)
    told = desk.after(DESK.continue_s).home
    assert [(each.reasons, each.seen) for each in told if isinstance(each, Suspended)] == [((), "")]


def test_a_sign_that_comes_while_the_node_lets_it_go_on_keeps_it_frozen():
    desk = quiet_desk()
    desk.sign()
    desk.node.wait(DESK.continue_s)
    said = desk.node.tell(Wake(Part.NODE))  # the order is under way
    desk.seen(SignKind.INPUT)
    desk.obey(said)
    assert (desk.frozen, desk.reasons(1)) == ({1: True}, (OWNER,))
    desk.after(DESK.continue_s)
    assert (desk.frozen, desk.reasons(1)) == ({1: False}, ())


def test_a_task_is_vacated_with_its_grace_once_the_owner_stays():
    desk = quiet_desk()
    desk.sign()
    said = []
    for _ in range(10):
        desk.sign()
        said += ends(desk.after(60))
    assert said == [(1, EndCause.EVICTED, 10.0)]


def test_what_does_not_end_within_its_grace_is_discarded_when_that_is_due():
    desk = quiet_desk(replace(DESK, vacate_s=60.0, discard_s=62.0))
    desk.sign()
    assert ends(desk.after(60)) == [(1, EndCause.EVICTED, 10.0)]
    assert ends(desk.after(2)) == [(1, EndCause.EVICTED, 0.0)]
    assert ends(desk.after(2)) == []


def test_a_task_that_skips_suspension_is_vacated_at_once_and_the_others_stand():
    desk = quiet_desk()
    desk.run(2, no_suspend=True)
    assert ends(desk.sign()) == [(2, EndCause.EVICTED, 10.0)]
    assert (desk.reasons(1), desk.reasons(2)) == ((OWNER,), ())
    assert ends(desk.sign()) == []  # once


def test_such_a_task_stands_from_the_sign_on_until_the_node_ends_it():
    desk = quiet_desk()
    desk.run(2, no_suspend=True)
    desk.seen()
    assert desk.frozen == {1: True, 2: True}


def test_such_a_task_is_vacated_by_a_daemon_that_restarted_and_discarded_when_that_is_due():
    policy = replace(DESK, vacate_s=inf, discard_s=5.0)
    desk = quiet_desk(policy)
    desk.run(2, no_suspend=True)
    claims, now_s = desk.node.node.claims(), desk.node.now_s
    desk.node = LoneNode(4, owner=policy, claims=claims, now_s=now_s, incarnation=2, attached=False)
    alive = tuple((attempt(number), WALL_S) for number in (1, 2))
    desk.tell(LauncherAttached(alive))
    assert ends(desk.sign()) == [(2, EndCause.EVICTED, 10.0)]
    assert (2, EndCause.EVICTED, 0.0) in ends(desk.after(5.0))


def test_where_nothing_is_suspended_a_task_that_skips_that_goes_on():
    desk = quiet_desk(replace(DESK, suspend_s=inf))
    desk.run(2, no_suspend=True)
    assert ends(desk.sign()) == []
    assert desk.frozen == {1: False, 2: False}


def test_tasks_of_exempt_users_go_on():
    desk = quiet_desk(replace(DESK, exempt=("ann",)))
    desk.run(2, user="bob")
    desk.sign()
    assert desk.frozen == {1: False, 2: True}
    desk.sign()
    assert [number for number, _, _ in ends(desk.after(DESK.vacate_s))] == []


def test_while_a_machine_is_in_use_tasks_of_exempt_users_start_and_others_are_turned_away():
    desk = Desk(replace(DESK, exempt=("ann",)))
    assert desk.unavailable() is None
    desk.run(1)
    assert desk.frozen == {1: False}
    refused = desk.run(2, user="bob")
    [refusal] = [each for each in refused.home if isinstance(each, Refusal)]
    assert (refusal.reason.rule, desk.frozen) == (Rule.OWNER_ACTIVE, {1: False})
    [away] = desk.node.idle.turned_away
    assert (away.user, away.is_in_use) == ("bob", True)


def test_brokers_forget_whom_it_turned_away_once_it_is_left_alone():
    desk = Desk(replace(DESK, exempt=("ann",)))
    rules = desk.node.idle.rules
    desk.after(DESK.continue_s)
    assert desk.node.idle.rules == rules + 1
    desk.run(2, user="bob")
    assert desk.frozen == {2: False}


def test_a_machine_may_exempt_all():
    desk = Desk(replace(DESK, exempt=(ALL,)))
    desk.run(1)
    desk.run(2, user="bob")
    desk.sign()
    assert desk.frozen == {1: False, 2: False}


def test_without_a_sensor_that_works_the_machine_is_in_use():
    desk = quiet_desk(replace(DESK, vacate_s=inf))
    desk.sensors = BROKEN
    desk.tell(desk.noticed())
    assert desk.reasons(1) == (OWNER,)
    assert desk.unavailable().had == "none of its sensors works"
    desk.after(2 * DESK.continue_s)
    assert desk.unavailable() is not None
    desk.sensors = WORKS
    desk.tell(desk.noticed())
    assert (desk.reasons(1), desk.unavailable()) == ((), None)


def test_the_owner_s_word_counts_before_signs_until_its_time_is_over():
    desk = quiet_desk()
    desk.tell(OwnerSaid(OwnerWord.HERE, 3600.0))
    assert (desk.frozen, desk.unavailable().needed) == ({1: True}, "iriai owner away on ume")
    desk.tell(OwnerSaid(OwnerWord.AWAY, 3600.0))
    desk.sign()
    assert (desk.frozen, desk.reasons(1)) == ({1: False}, ())
    desk.after(3600.0)
    desk.sign()
    assert (desk.frozen, desk.reasons(1)) == ({1: True}, (OWNER,))


def test_the_owner_may_want_the_machine_at_once():
    desk = quiet_desk()
    said = desk.tell(OwnerSaid(OwnerWord.HERE, inf, vacates=True))
    assert ends(said) == [(1, EndCause.EVICTED, 10.0)]


def restarted(desk: Desk, for_s: float) -> None:
    """A daemon that begins so long after its predecessor ended, which had stored its word."""
    given = desk.node.node.owner.given
    desk.node = LoneNode(4, owner=DESK, now_s=desk.node.now_s + for_s, incarnation=2)
    if given is not None:
        desk.node.node.owner.restore(given, instant(desk.node.now_s))
    desk.tell(desk.noticed())


def test_the_owner_s_word_outlives_a_daemon_for_as_long_as_it_was_given():
    desk = quiet_desk()
    desk.tell(OwnerSaid(OwnerWord.HERE, 3600.0))
    restarted(desk, 600.0)
    assert desk.unavailable().had == "its owner said: here"
    desk.after(2999.0)
    assert desk.unavailable().had == "its owner said: here"
    desk.after(1.0)
    assert desk.unavailable().had != "its owner said: here"
    desk.after(DESK.continue_s)
    assert desk.unavailable() is None


def test_a_word_that_is_over_when_its_daemon_comes_back_counts_until_then():
    desk = quiet_desk()
    desk.tell(OwnerSaid(OwnerWord.HERE, 3600.0, vacates=True))
    restarted(desk, 3600.0 + DESK.continue_s - 1.0)
    assert desk.unavailable() is not None
    desk.after(1.0)
    assert desk.unavailable() is None


def test_a_word_that_was_taken_back_is_forgotten():
    desk = quiet_desk()
    desk.tell(OwnerSaid(OwnerWord.AWAY, inf))
    desk.tell(OwnerSaid(None, inf))
    assert desk.node.node.owner.given is None


def test_who_wanted_the_machine_for_itself_still_wants_it_after_a_restart():
    desk = quiet_desk()
    desk.tell(OwnerSaid(OwnerWord.HERE, inf, vacates=True))
    claims, given = desk.node.node.claims(), desk.node.node.owner.given
    desk.node = LoneNode(4, owner=DESK, claims=claims, incarnation=2, attached=False)
    desk.node.node.owner.restore(given, instant(0.0))
    desk.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert ends(desk.tell(desk.noticed())) == [(1, EndCause.EVICTED, 10.0)]


def test_a_wall_clock_that_was_set_back_keeps_no_word_for_longer_than_one_may_hold():
    desk = quiet_desk()
    given = OwnerWordGiven(OwnerWord.AWAY, instant(desk.node.now_s).wall_s + 1e9)
    desk.node.node.owner.restore(given, instant(desk.node.now_s))
    assert desk.node.node.owner.presence.word_until_s == desk.node.now_s + WORD_S_MAX


def test_a_new_daemon_suspends_nothing_before_it_knows_what_was_seen():
    desk = quiet_desk()
    claims = desk.node.node.claims()
    desk.node = LoneNode(4, owner=DESK, claims=claims, now_s=desk.node.now_s, incarnation=2)
    assert desk.reasons(1) == ()
    desk.obey(desk.node.first)
    desk.tell(desk.noticed())
    assert (desk.reasons(1), desk.unavailable()) == ((), None)


def test_a_machine_without_a_policy_has_none_of_this():
    node = LoneNode(4)
    assert node.node.owner is None
    assert not [each for each in node.first.others if isinstance(each, WatchOwner)]


@pytest.mark.parametrize("lowers", [True, False])
def test_background_tasks_are_lowered_unless_the_owner_does_not_want_it(lowers):
    desk = Desk(owner_policy(OwnerSection(profile="desk", lower=lowers, exempt=("kai",))))
    desk.after(DESK.continue_s)
    desk.run(1, user="kai")
    desk.run(2)
    assert not desk.launcher.puts_behind(attempt(1))
    assert desk.launcher.puts_behind(attempt(2)) == lowers

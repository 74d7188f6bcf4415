"""Suspended claims: reasons, orders to the launcher, cpus for others, time that counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.model.ids import AttemptId
from iriai.model.records import ClaimStored
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendedClaim, SuspendReason
from iriai.model.usage import Usage
from iriai.policy.accounting.decay import ChargeRule
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    AttemptsSampled,
    AttemptStarted,
    FreezeAttempt,
    LauncherAttached,
    LinkUp,
    Part,
    TerminateAttempt,
    Wake,
)
from iriai.protocol.messages.scheduling import Begun, End, Run
from iriai.protocol.messages.suspension import ReturnCpus, Suspend, Suspended, Vacate
from tests.node.lone_node import LoneNode, exited
from tests.support.told import WALL_S, Told, attempt, only, spec

USER, OWNER = SuspendReason.USER, SuspendReason.OWNER
STOPPED = SuspendReason.STOPPED_QUEUE


class Story:
    """A node with a task of two cpus that runs; the test plays launcher and home."""

    def __init__(self, cpus: int = 4, rule: ChargeRule | None = None, **changes) -> None:
        self.node = LoneNode(cpus, rule=rule)
        self.node.run(cpus=2, **changes)
        self.node.tell(AttemptStarted(attempt(), WALL_S))
        self.frozen_s, self.since_s = 0.0, None

    def user(self, change: int, *, is_wanted: bool) -> Told:
        return self.node.tell(Suspend(attempt(), change, is_wanted))

    def give(self, reason: SuspendReason, *, is_given: bool = True) -> Told:
        node = self.node
        node.node.suspend([attempt()], reason, node.instant(), is_given=is_given)
        return node.settle()

    def obey(self, said: Told, *, is_complete: bool = True) -> Told:
        """The launcher does what it is ordered."""
        now_s = self.node.now_s
        [order] = orders(said)
        if self.since_s is not None:
            self.frozen_s += now_s - self.since_s
        self.since_s = now_s if order.reasons else None
        told = (order.attempt, order.number, order.reasons, self.frozen_s, now_s, is_complete)
        return self.node.tell(AttemptFrozen(*told))

    @property
    def free_cpus(self) -> int:
        return self.node.node.calendar.free.cpus


def orders(said: Told) -> list[FreezeAttempt]:
    return [each for each in said.others if isinstance(each, FreezeAttempt)]


def answer(said: Told) -> Suspended:
    return only(said.home, Suspended)


def reported(said: Told) -> SuspendedClaim | None:
    [idle] = [each for each in said.broker if hasattr(each, "changed")]
    [running] = idle.changed
    return running.suspended


def test_what_its_user_suspends_is_ordered_frozen_and_kept():
    story = Story()
    said = story.user(1, is_wanted=True)
    assert orders(said) == [FreezeAttempt(attempt(), 1, (USER,))]
    assert answer(said).reasons == (USER,)
    assert only(said.records, ClaimStored).claim.suspension.reasons == (USER,)


def test_its_cpus_are_free_for_others_once_it_stands():
    story = Story()
    said = story.user(1, is_wanted=True)
    assert story.free_cpus == 2
    said = story.obey(said)
    assert story.free_cpus == 4
    assert reported(said).freed_cpus == 2


def test_its_cpus_are_not_free_while_something_of_it_may_run():
    story = Story()
    story.obey(story.user(1, is_wanted=True), is_complete=False)
    assert story.free_cpus == 2


def test_a_task_with_the_whole_machine_keeps_it():
    story = Story(exclusive=True)
    story.obey(story.user(1, is_wanted=True))
    assert story.free_cpus == 0


def test_it_waits_for_its_cpus_and_goes_on_with_them():
    story = Story()
    story.obey(story.user(1, is_wanted=True))
    said = story.user(2, is_wanted=False)
    assert orders(said) == []
    assert (answer(said).reasons, answer(said).is_resuming) == ((USER,), True)
    assert reported(said).is_resuming
    said = story.node.tell(ReturnCpus(attempt(), 2))
    assert orders(said) == [FreezeAttempt(attempt(), 2, ())]
    assert story.free_cpus == 2
    assert answer(said).reasons == ()


def test_it_takes_the_cpus_that_are_free_and_goes_on_with_all():
    story = Story()
    story.obey(story.user(1, is_wanted=True))
    story.node.run(2, cpus=3)
    story.user(2, is_wanted=False)
    assert orders(story.node.tell(ReturnCpus(attempt(), 2))) == []
    assert story.free_cpus == 0
    story.node.tell(exited(2))
    assert orders(story.node.tell(ReturnCpus(attempt(), 1))) == [FreezeAttempt(attempt(), 2, ())]


def test_who_changes_their_mind_while_it_waits_gives_up_what_it_has_again():
    story = Story()
    story.obey(story.user(1, is_wanted=True))
    story.user(2, is_wanted=False)
    story.node.tell(ReturnCpus(attempt(), 1))
    assert story.free_cpus == 3
    said = story.user(3, is_wanted=True)
    assert (orders(said), answer(said).is_resuming) == ([], False)
    assert story.free_cpus == 4


def test_a_task_of_which_a_restarted_daemon_knows_little_frees_its_cpus_once_it_knows_more():
    story = Story()
    said = story.user(1, is_wanted=True)
    [claim] = story.node.node.claims()
    story.node = LoneNode(4, claims=(claim,), attached=False)
    story.node.tell(LauncherAttached(((attempt(), WALL_S),)))
    story.obey(said)
    assert story.free_cpus == 2
    story.node.tell(Run(attempt(), spec(cpus=2), None))
    assert story.free_cpus == 4


def test_a_task_with_the_whole_machine_is_paid_for_while_it_stands():
    story = Story(exclusive=True)
    story.obey(story.user(1, is_wanted=True))
    story.node.wait(10.0)
    story.node.tell(AttemptsSampled(((attempt(), Usage()),)))
    assert story.node.node.suspended[attempt()].charged_s == pytest.approx(4 * 10.0)


def test_who_changes_their_mind_before_it_stands_has_it_go_on_at_once():
    story = Story()
    story.user(1, is_wanted=True)
    assert orders(story.user(2, is_wanted=False)) == [FreezeAttempt(attempt(), 2, ())]


def test_a_change_that_is_not_new_changes_nothing_and_is_answered():
    story = Story()
    story.user(2, is_wanted=True)
    for change in (2, 1):
        said = story.user(change, is_wanted=False)
        assert orders(said) == []
        assert (answer(said).change, answer(said).reasons) == (2, (USER,))


def test_reasons_are_a_set_and_each_is_taken_by_itself():
    story = Story()
    assert orders(story.give(OWNER)) == [FreezeAttempt(attempt(), 1, (OWNER,))]
    assert orders(story.give(OWNER)) == []
    assert orders(story.user(1, is_wanted=True)) == [FreezeAttempt(attempt(), 2, (USER, OWNER))]
    assert orders(story.give(STOPPED, is_given=False)) == []
    assert orders(story.give(OWNER, is_given=False)) == [FreezeAttempt(attempt(), 3, (USER,))]


def test_what_a_machine_freezes_keeps_its_cpus_and_ends_nobody_knows_when():
    story = Story(time_limit_s=100.0)
    story.obey(story.give(OWNER))
    assert story.free_cpus == 2
    held = story.node.node.suspended[attempt()]
    assert held.stay_left_s(story.node.instant()) is None


def test_its_users_suspension_does_not_move_its_end_until_it_goes_on():
    story = Story(time_limit_s=100.0)
    held = story.node.node._claims.by_attempt[attempt()]
    end_s = held.stay_left_s(story.node.instant())
    story.obey(story.user(1, is_wanted=True))
    story.node.wait(40.0)
    assert held.stay_left_s(story.node.instant()) == pytest.approx(end_s - 40.0)
    story.user(2, is_wanted=False)
    said = story.node.tell(ReturnCpus(attempt(), 2))
    assert held.stay_left_s(story.node.instant()) == pytest.approx(end_s)
    story.node.wait(1.0)
    story.obey(said)
    assert held.stay_left_s(story.node.instant()) == pytest.approx(end_s)


def test_time_frozen_is_no_run_time():
    story = Story()
    story.node.wait(10.0)
    story.obey(story.give(STOPPED))
    story.node.wait(50.0)
    story.obey(story.give(STOPPED, is_given=False))
    story.node.wait(5.0)
    story.node.tell(AttemptsSampled(((attempt(), Usage()),)))
    assert story.node.node.suspended[attempt()].charged_s == pytest.approx(2 * 15.0)


def test_a_user_pays_for_what_a_suspended_task_keeps():
    story = Story()
    node = LoneNode(4, gpus=1, rule=ChargeRule(gpu_weight=8.0))
    node.run(cpus=2, gpus=1)
    node.tell(AttemptStarted(attempt(), WALL_S))
    story.node = node
    story.obey(story.user(1, is_wanted=True))
    node.wait(10.0)
    node.tell(AttemptsSampled(((attempt(), Usage()),)))
    assert node.node.suspended[attempt()].charged_s == pytest.approx(8.0 * 10.0)


def test_who_keeps_a_task_suspended_for_too_long_has_it_evicted():
    story = Story()
    story.obey(story.user(1, is_wanted=True))
    story.node.wait(story.node.node.settings.user_suspend_max_s + 1.0)
    said = story.node.tell(Wake(Part.NODE))
    end = only(said.others, TerminateAttempt)
    assert (end.cause, "the longest allowed" in end.message) == (EndCause.EVICTED, True)
    said = story.node.tell(exited(cause=EndCause.EVICTED))
    assert only(said.home, End).result.cause is EndCause.EVICTED
    assert story.free_cpus == 4


def test_what_others_were_promised_is_given_up_at_the_end_and_not_before():
    story = Story(time_limit_s=100.0, kill_grace_s=10.0)
    story.obey(story.user(1, is_wanted=True))
    story.node.wait(80.0)
    assert story.node.tell(Vacate(attempt())).others == []
    story.node.wait(20.0)
    assert only(story.node.tell(Vacate(attempt())).others, TerminateAttempt)


def test_nobody_vacates_what_runs():
    story = Story(time_limit_s=100.0)
    story.node.wait(200.0)
    assert story.node.tell(Vacate(attempt())).others == []


def test_cpus_that_nobody_waits_for_are_not_returned():
    story = Story()
    said = story.node.tell(ReturnCpus(attempt(), 2), ReturnCpus(attempt(7), 2))
    assert (said.others, story.free_cpus) == ([], 2)


def test_a_suspension_of_what_is_over_or_was_never_here_does_nothing():
    story = Story()
    story.node.tell(exited())
    said = story.node.tell(Suspend(attempt(), 1, True), Suspend(attempt(9), 1, True))
    assert (said.others, said.home) == ([], [])


def test_a_daemon_that_comes_back_knows_what_is_suspended_and_what_is_free():
    story = Story()
    story.obey(story.user(1, is_wanted=True))
    story.give(OWNER)
    story.give(STOPPED)
    [claim] = story.node.node.claims()
    node = LoneNode(4, claims=(claim,), attached=False, is_checked=False)
    assert node.node.calendar.free == Resources(4)
    said = node.tell(LauncherAttached(((attempt(), WALL_S),)))
    [order] = orders(said)
    assert order.reasons == (USER, STOPPED)  # those of the moment are given again, or not
    assert order.number > story.node.node.suspended[attempt()].suspension.number - 1


def test_a_home_that_can_be_reached_again_hears_why_its_task_does_not_run():
    node = LoneNode(4)
    far = AttemptId("yama", 1, 0, 1)
    node.tell(Run(far, spec(), node.capabilities[0], 60.0))
    node.tell(AttemptStarted(far, WALL_S))
    node.node.suspend([far], OWNER, node.instant(), is_given=True)
    node.settle()
    said = node.tell(LinkUp("yama"))
    assert [type(each) for each in said.home[:2]] == [Begun, Suspended]
    assert said.home[1].reasons == (OWNER,)


def test_a_task_that_has_not_started_is_started_frozen():
    node = LoneNode(4, attached=False)
    node.node.suspend([attempt()], STOPPED, node.instant(), is_given=True)
    node.tell(LauncherAttached(()))
    node.run()
    node.node.suspend([attempt()], STOPPED, node.instant(), is_given=True)
    assert orders(node.settle()) == [FreezeAttempt(attempt(), 1, (STOPPED,))]


def test_an_attempt_that_was_lost_while_frozen_ran_no_longer_than_it_ran():
    story = Story()
    story.node.wait(10.0)
    story.obey(story.give(STOPPED))
    story.node.wait(50.0)
    story.obey(story.give(STOPPED, is_given=False))
    lost = replace(exited(cause=EndCause.LOST, ran_s=60.0), ended_wall_s=WALL_S + 60.0)
    said = story.node.tell(lost)
    assert only(said.home, End).result.charge_s == pytest.approx(2 * 10.0)


def test_a_reason_that_nobody_gave_is_not_taken():
    story = Story()
    story.give(OWNER, is_given=False)
    assert story.node.node.suspended == {}

"""The launcher goes and comes back: what runs is taken up, what it never heard is ordered again."""

from __future__ import annotations

from iriai.model.reason import Rule
from iriai.model.records import ClaimsDropped, ClaimStored
from iriai.model.state import EndCause
from iriai.node.offer_builder import FIRST_S, MAX_S
from iriai.protocol.messages.effects import (
    AttemptStarted,
    ForgetAttempt,
    LaunchAttempt,
    LauncherAttached,
    LauncherLost,
    Part,
    TerminateAttempt,
    Wake,
)
from iriai.protocol.messages.scheduling import Begun, End, Refusal, Run, Stop
from tests.node.lone_node import LoneNode, exited
from tests.support.told import HOME, NOTHING_TOLD, WALL_S, attempt, only, spec

STOP = Stop(attempt(1), EndCause.CANCELLED, 10.0)
TERMINATE = TerminateAttempt(attempt(1), EndCause.CANCELLED, 10.0)


def launches(said) -> list:
    return [each.attempt for each in said.others if type(each) is LaunchAttempt]


def running_node() -> LoneNode:
    """One attempt runs."""
    node = LoneNode()
    node.run(1)
    node.tell(AttemptStarted(attempt(1), WALL_S))
    return node


def restarted(claims, **changes) -> LoneNode:
    """The next daemon's node, not yet connected to its launcher; its home has asked again."""
    node = LoneNode(claims=claims, incarnation=2, attached=False, **changes)
    node.tell(*[Run(claim.attempt, spec(), None) for claim in claims])
    return node


def a_claim(**changes):
    return only(LoneNode(**changes).run(1).records, ClaimStored).claim


def test_a_start_is_told_once():
    node = LoneNode()
    node.run(1)
    begun = node.tell(AttemptStarted(attempt(1), WALL_S)).home
    assert begun == [Begun(attempt(1), HOME, WALL_S)]
    assert node.tell(AttemptStarted(attempt(1), WALL_S)) == NOTHING_TOLD


def test_what_still_runs_is_left_alone_when_the_launcher_is_back():
    node = running_node()
    node.tell(LauncherLost())
    said = node.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert (said.home, said.records, said.others) == ([], [], [])


def test_what_ended_meanwhile_has_its_end():
    node = running_node()
    node.tell(LauncherLost())
    said = node.tell(LauncherAttached(()), exited(1, EndCause.LOST))
    assert [end.result.cause for end in said.home] == [EndCause.LOST]
    assert launches(said) == []


def test_what_it_never_heard_of_is_ordered_again():
    node = LoneNode()
    node.run(1)
    node.tell(LauncherLost())
    assert launches(node.tell(LauncherAttached(()))) == [attempt(1)]


def test_what_has_run_and_is_not_known_any_more_is_lost():
    node = running_node()
    node.tell(LauncherLost())
    said = node.tell(LauncherAttached(()))
    assert [end.result.cause for end in said.home] == [EndCause.LOST]
    assert "launcher does not know it" in said.home[0].result.message


def test_what_nobody_claims_is_ended():
    said = LoneNode().tell(LauncherAttached(((attempt(9), WALL_S),)))
    assert said.others == [TerminateAttempt(attempt(9), EndCause.LOST, 0.0)]


def test_after_a_restart_running_tasks_are_taken_up_again():
    node = restarted([a_claim()])
    said = node.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert said.home == [Begun(attempt(1), HOME, WALL_S)]
    assert launches(said) == []
    [end] = node.tell(exited(1)).home
    assert isinstance(end, End)


def test_after_a_restart_what_was_never_launched_is():
    node = restarted([a_claim()])
    assert launches(node.tell(LauncherAttached(()))) == [attempt(1)]


def test_before_its_home_asks_again_nothing_can_be_ordered():
    node = LoneNode(claims=[a_claim()], incarnation=2, attached=False)
    assert launches(node.tell(LauncherAttached(()))) == []
    assert launches(node.tell(Run(attempt(1), spec(), None))) == [attempt(1)]


def test_what_an_earlier_boot_granted_is_lost_unless_it_has_its_end():
    claim = a_claim(boot_id="before")
    said = restarted([claim], boot_id="after").tell(LauncherAttached(()))
    assert [end.result.cause for end in said.home] == [EndCause.LOST]
    said = restarted([claim], boot_id="after").tell(LauncherAttached(()), exited(1))
    assert [end.result.cause for end in said.home] == [EndCause.COMPLETED]


def test_a_stop_is_passed_on():
    node = running_node()
    assert node.tell(STOP).others == [TERMINATE]
    said = node.tell(exited(1, EndCause.CANCELLED))
    assert said.home[0].result.cause is EndCause.CANCELLED


def test_a_stop_of_what_is_not_here_is_nothing():
    assert LoneNode().tell(STOP) == NOTHING_TOLD


def test_a_stop_given_while_the_launcher_is_away_is_given_again():
    node = running_node()
    node.tell(LauncherLost())
    node.tell(STOP)
    said = node.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert said.others == [TERMINATE]


def test_a_stop_of_what_was_never_launched_follows_the_launch():
    node = restarted([a_claim()])
    node.tell(STOP)
    said = node.tell(LauncherAttached(()))
    assert [type(order) for order in said.others] == [LaunchAttempt, TerminateAttempt]


def test_what_the_launcher_cannot_start_is_refused_and_the_claim_is_gone():
    node = LoneNode(cpus=4)
    node.run(1, cpus=3)
    said = node.tell(exited(1, EndCause.REFUSED, why="no space left"))
    refusal = only(said.home, Refusal)
    assert refusal.attempt == attempt(1)
    assert refusal.reason.rule is Rule.BACKED_OFF
    assert "no space left" in refusal.reason.had
    assert said.records == [ClaimsDropped((attempt(1),))]
    assert ForgetAttempt(attempt(1)) in said.others
    assert node.node.calendar.free.cpus == 4


def test_then_nothing_is_taken_for_a_while():
    node = LoneNode()
    node.run(1)
    node.tell(exited(1, EndCause.REFUSED))
    assert node.idle.unavailable.rule is Rule.BACKED_OFF
    assert node.run(2).home[0].reason.rule is Rule.BACKED_OFF
    node.wait(FIRST_S)
    node.tell(Wake(Part.NODE))
    assert node.idle.unavailable is None
    assert node.run(3).home == []


def test_each_failure_in_a_row_doubles_the_while_up_to_a_minute():
    node = LoneNode()
    pauses_s = []
    for number in range(1, 10):
        node.run(number)
        node.tell(exited(number, EndCause.REFUSED))
        pauses_s.append(node.node._availability.back_off.until_s - node.now_s)
        node.wait(MAX_S)
        node.tell(Wake(Part.NODE))
    assert pauses_s == [1, 2, 4, 8, 16, 32, MAX_S, MAX_S, MAX_S]
    node.run(50)
    node.tell(AttemptStarted(attempt(50), WALL_S))
    node.run(51)
    node.tell(exited(51, EndCause.REFUSED))
    assert node.node._availability.back_off.until_s - node.now_s == FIRST_S


def test_many_failures_at_once_count_as_one():
    node = LoneNode(cpus=4)
    for number in (1, 2, 3):
        node.run(number)
    node.tell(*[exited(number, EndCause.REFUSED) for number in (1, 2, 3)])
    assert node.node._availability.back_off.until_s - node.now_s == FIRST_S


def test_the_end_of_a_short_task_tells_its_start():
    node = LoneNode()
    node.run(1)
    said = node.tell(exited(1, ran_s=0.01))
    [told] = said.home
    assert only([told], End).result.elapsed_s == 0.01
    assert node.node.ledger.rows() != ()

"""What is granted ahead: it waits, holds nothing, and starts in the turn in which there is room."""

from __future__ import annotations

import pytest

from iriai.model.reason import Rule
from iriai.model.records import ClaimStored
from iriai.model.state import EndCause
from iriai.policy.placement.calendar import AHEAD_WAIT_S
from iriai.protocol.messages.effects import AttemptStarted, LaunchAttempt, Part, Wake
from iriai.protocol.messages.scheduling import Accepted, End, Refusal, Run, Stop
from tests.node.lone_node import LoneNode, exited
from tests.support.told import WALL_S, attempt, only, spec


def run_ahead(node: LoneNode, number: int, lease_s: float | None = None, **changes):
    """A home asks with a capability for what may wait."""
    capability = node.ahead[0]
    return node.tell(Run(attempt(number), spec(**changes), capability, lease_s))


def busy(cpus: int = 1, **options) -> LoneNode:
    """A machine whose cpus a task of job 1 holds."""
    node = LoneNode(cpus, **options)
    node.run(1, cpus=cpus)
    node.tell(AttemptStarted(attempt(1), WALL_S))
    return node


def launched(said) -> list:
    return [each.attempt for each in said.others if isinstance(each, LaunchAttempt)]


def test_an_idle_machine_has_nothing_to_wait_for():
    assert LoneNode().ahead == []


def test_as_many_may_wait_as_cpus_are_claimed():
    node = LoneNode(8)
    node.run(1, cpus=3)
    assert len(node.ahead) == 3


def test_what_waits_holds_nothing_and_is_told_as_waiting():
    node = busy()
    said = run_ahead(node, 2)
    assert said.home == [Accepted(attempt(2), "ume", is_ahead=True)]
    assert launched(said) == []
    assert [each.attempt for each in node.idle.waiting] == [attempt(2)]
    assert node.idle.began == ()
    assert only(said.records, ClaimStored).claim.is_ahead


def test_it_starts_in_the_turn_in_which_its_predecessor_ends():
    node = busy()
    run_ahead(node, 2)
    said = node.tell(exited(1))
    assert launched(said) == [attempt(2)]
    assert node.idle.ended == (attempt(1),)
    assert [each.attempt for each in node.idle.began] == [attempt(2)]
    stored = [each.claim for each in said.records if isinstance(each, ClaimStored)]
    assert [claim.is_ahead for claim in stored if claim.attempt == attempt(2)] == [False]


def test_those_that_wait_start_in_the_order_in_which_they_came():
    node = busy(2)
    run_ahead(node, 2)
    run_ahead(node, 3)
    assert launched(node.tell(exited(1))) == [attempt(2), attempt(3)]


def test_no_more_wait_than_there_are_places():
    node = busy(2)
    spare = node.ahead[1]
    run_ahead(node, 2, cpus=2)
    [refusal] = node.tell(Run(attempt(3), spec(), spare, None)).home
    assert isinstance(refusal, Refusal)
    assert refusal.reason.rule is Rule.MACHINE_BUSY


@pytest.mark.parametrize("changes", [{"exclusive": True}, {"gpus": 1}])
def test_what_takes_the_machine_or_a_gpu_does_not_wait(changes):
    node = LoneNode(1, gpus=1)
    node.run(1, gpus=1)
    [refusal] = run_ahead(node, 2, **changes).home
    assert isinstance(refusal, Refusal)


def test_a_place_that_is_free_by_now_is_taken_at_once():
    node = busy()
    capability = node.ahead[0]
    node.tell(exited(1))
    said = node.tell(Run(attempt(2), spec(), capability, None))
    assert said.home == []
    assert launched(said) == [attempt(2)]


def test_who_comes_for_a_place_that_was_taken_by_what_would_have_waited_waits_in_its_stead():
    # Else each such meeting on the way would be a refusal, which counts against the machine.
    node = busy()
    ahead = node.ahead[0]
    node.tell(exited(1))
    free = node.capabilities[0]
    node.tell(Run(attempt(2), spec(), ahead, None))
    said = node.tell(Run(attempt(3), spec(), free, None))
    assert said.home == [Accepted(attempt(3), "ume", is_ahead=True)]
    assert [each.attempt for each in node.idle.waiting] == [attempt(3)]
    assert launched(node.tell(exited(2))) == [attempt(3)]


def test_a_place_offered_after_that_lets_nothing_wait():
    node = busy(2)
    ahead = node.ahead[0]
    node.tell(exited(1))
    node.tell(Run(attempt(2), spec(cpus=2), ahead, None))
    node.tell(exited(2))
    for number, capability in enumerate(node.capabilities, 3):
        node.tell(Run(attempt(number), spec(), capability, None))
        node.tell(exited(number))
    taken, spare = node.capabilities
    node.tell(Run(attempt(5), spec(cpus=2), taken, None))
    [refusal] = node.tell(Run(attempt(6), spec(), spare, None)).home
    assert isinstance(refusal, Refusal)


def test_a_capability_for_a_free_place_lets_nothing_wait():
    node = LoneNode(2)
    spare = node.capabilities[1]
    node.run(1, cpus=2)
    [refusal] = node.tell(Run(attempt(2), spec(), spare, None)).home
    assert isinstance(refusal, Refusal)


def test_what_waits_in_vain_is_given_back_with_the_reason():
    node = busy()
    run_ahead(node, 2)
    node.wait(AHEAD_WAIT_S - 0.1)
    assert node.tell(Wake(Part.NODE)).home == []
    node.wait(0.1)
    [refusal] = node.tell(Wake(Part.NODE)).home
    assert refusal.attempt == attempt(2)
    assert "take longer" in refusal.reason.had
    assert node.idle.refused == (attempt(2),)
    assert launched(node.tell(exited(1))) == []


def test_a_drained_machine_gives_back_what_waits():
    node = busy()
    run_ahead(node, 2)
    node.node.drain("a new disk", "root", node.instant())
    [refusal] = node.settle().home
    assert refusal.reason.rule is Rule.DRAINED


def test_what_waits_can_be_stopped():
    node = busy()
    run_ahead(node, 2)
    [end] = node.tell(Stop(attempt(2), EndCause.CANCELLED, 0.0)).home
    assert isinstance(end, End)
    assert end.result.cause is EndCause.CANCELLED
    assert launched(node.tell(exited(1))) == []


def test_a_home_that_asks_again_hears_that_it_waits():
    node = busy()
    run_ahead(node, 2)
    said = node.tell(Run(attempt(2), spec(), None, None))
    assert said.home == [Accepted(attempt(2), "ume", is_ahead=True)]
    assert launched(said) == []


def test_a_restarted_daemon_gives_back_what_waited():
    node = busy()
    run_ahead(node, 2)
    again = LoneNode(1, claims=node.node.claims(), incarnation=2, attached=False)
    [refusal] = again.first.home
    assert refusal.attempt == attempt(2)
    assert again.node.running() == [attempt(1)]


def test_a_restart_after_it_took_its_place_finds_a_claim_like_any_other():
    node = busy()
    run_ahead(node, 2)
    node.tell(exited(1))
    again = LoneNode(1, claims=node.node.claims(), incarnation=2, attached=False)
    assert attempt(2) in again.node.running()
    assert again.first.home == []

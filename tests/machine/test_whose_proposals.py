"""A home obeys the policy of the broker that it follows, and of no other machine."""

from __future__ import annotations

import pytest

from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.model.policy_terms import JobAction, PolicyTerms, QueueTerms
from iriai.protocol.messages.effects import Delivered, Part, Send
from iriai.protocol.messages.proposals import Propose, Proposed
from tests.support.told import HOME, instant, job, spec

TERMS = PolicyTerms(tuple(JobAction), (QueueTerms(True, None, None),))


@pytest.fixture
def machine() -> Machine:
    """A home whose broker is b."""
    machine = Machine(HOME, None, Home(HOME, 1, (), policy_terms=TERMS), None, broker_at="b")
    machine.submit(spec(), (), instant(0.0))
    machine.end_turn(instant(0.0))
    return machine


def proposed_by(machine: Machine, sender: str) -> list[Proposed]:
    """What the home answers, if its machine lets the message in."""
    message = Propose(job(), 1.0, 1, "Night", JobAction.HOLD)
    assert machine.takes(sender, Part.HOME, message)
    machine.handle(Delivered(sender, Part.HOME, message), instant(1.0))
    sent = [each for each in machine.end_turn(instant(1.0)).outward if isinstance(each, Send)]
    return [each.message for each in sent if isinstance(each.message, Proposed)]


def test_the_broker_that_it_follows_is_obeyed(machine):
    [answer] = proposed_by(machine, "b")
    assert not answer.refusal
    assert machine.home.jobs[1].held


@pytest.mark.parametrize("sender", ["c", "b2", "broker-of-another-cluster"])
def test_no_other_machine_is(machine, sender):
    assert not proposed_by(machine, sender)
    assert not machine.home.jobs[1].held


def test_a_broker_that_was_is_not(machine):
    machine.follow("c")
    assert not proposed_by(machine, "b")
    assert proposed_by(machine, "c")

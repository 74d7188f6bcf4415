"""Each message may be said by the machine that it speaks for, and by no other."""

from __future__ import annotations

import pytest

from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.policy_terms import JobAction
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.protocol.delivery.authorization import is_authorized, is_of_cluster
from iriai.protocol.messages.fences import Fence, Fenced
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    Begun,
    Counted,
    Explain,
    Explained,
    Forward,
    Refusal,
    Renew,
    Renewed,
    Returned,
    Stop,
    Summary,
    Want,
    Wants,
    Withdraw,
)
from iriai.protocol.messages.steps import ForgetStep, Step, StepBegun, StepEnded, StopStep
from iriai.protocol.messages.streams import AskOutput, Input, InputTaken, Output
from tests.home.lone_home import end

HOME, NODE, LIAR = "ume", "take", "oni"
ATTEMPT, JOB = AttemptId(HOME, 1, 0, 1), JobId(HOME, 1)
STEP = ATTEMPT.of_step(1)
REFUSED = Reason(Rule.MACHINE_BUSY, "1 cpu", "0 free", NODE)
OF_HOME = [
    Stop(ATTEMPT, EndCause.CANCELLED, 1.0),
    Acknowledge(ATTEMPT),
    AskOutput(ATTEMPT, "out", 0, 1),
    Input(ATTEMPT, 0, b"typed"),
    Fenced(ATTEMPT, 1),
    Step(STEP, 0, ("true",), Interaction.STREAM),
    StopStep(STEP, 1.0),
    ForgetStep(STEP),
    Renewed(HOME, 1.0),
    Want(JOB, Account("lab", "ann"), Resources(1), None, 1.0, 0.0, 1),
    Withdraw(JOB),
    Wants(HOME),
    Explain(JOB),
    Proposed(JOB, 1),
]
OF_NODE = [
    Accepted(ATTEMPT, NODE),
    Begun(ATTEMPT, NODE, 0.0),
    StepBegun(STEP, NODE),
    StepEnded(STEP, NODE, EndCause.COMPLETED),
    Refusal(ATTEMPT, REFUSED),
    end(ATTEMPT, machine=NODE),
    Renew(NODE, 1.0),
    Counted(NODE, (), ()),
]
OF_BROKER = [
    Summary(NODE, "east", (), (), 0),
    Forward(NODE, 1, "east", 1, Want(JOB, Account("lab", "ann"), Resources(1), None, 1.0, 0.0, 1)),
    Returned(NODE, 1, 1),
]
TO_HOME = [
    *OF_NODE[:4],
    Output(ATTEMPT, "out", 0, b"", is_complete=True),
    InputTaken(ATTEMPT, 0, is_open=True),
    Fence(ATTEMPT, 1),
    Explained(JOB, ()),
    Propose(JOB, 0.0, 1, "Night", JobAction.HOLD),
]


def name(message: object) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", OF_HOME, ids=name)
def test_a_home_speaks_of_its_own(message):
    assert is_authorized(HOME, NODE, message)
    assert not is_authorized(LIAR, NODE, message)


@pytest.mark.parametrize("message", OF_NODE, ids=name)
def test_a_node_speaks_for_itself(message):
    assert is_authorized(NODE, HOME, message)
    assert not is_authorized(LIAR, HOME, message)


@pytest.mark.parametrize("message", OF_BROKER, ids=name)
def test_a_broker_speaks_for_itself(message):
    assert is_authorized(NODE, HOME, message)
    assert not is_authorized(LIAR, HOME, message)


@pytest.mark.parametrize("message", OF_BROKER[:2], ids=name)
def test_and_for_its_own_cluster(message):
    assert is_of_cluster("east", message)
    assert not is_of_cluster("west", message)


@pytest.mark.parametrize("message", TO_HOME, ids=name)
def test_a_home_hears_of_its_own_alone(message):
    assert is_authorized(NODE, HOME, message)
    assert not is_authorized(NODE, LIAR, message)


@pytest.mark.parametrize(
    "message",
    [
        Stop(STEP, EndCause.CANCELLED, 1.0),
        Acknowledge(STEP),
        Step(ATTEMPT, 0, ("true",), Interaction.STREAM),
        StopStep(ATTEMPT, 1.0),
        ForgetStep(ATTEMPT),
    ],
    ids=name,
)
def test_no_home_says_of_a_seat_what_is_of_steps_nor_the_other_way_round(message):
    assert not is_authorized(HOME, NODE, message)


@pytest.mark.parametrize(
    "message",
    [
        Accepted(STEP, NODE),
        Begun(STEP, NODE, 0.0),
        end(STEP, machine=NODE),
        StepBegun(ATTEMPT, NODE),
        StepEnded(ATTEMPT, NODE, EndCause.COMPLETED),
    ],
    ids=name,
)
def test_no_node_tells_of_a_seat_what_is_of_steps_nor_the_other_way_round(message):
    assert not is_authorized(NODE, HOME, message)

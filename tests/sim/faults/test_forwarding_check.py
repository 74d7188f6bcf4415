"""How often tasks are passed on is counted by what machines were asked and have not answered."""

from __future__ import annotations

import pytest

from iriai.model.ids import Account, JobId
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Forward, Returned, Want
from tests.sim.forwarding_check import ForwardingCheck

WANT = Want(JobId("west", 1), Account("lab", "ann"), Resources(1), None, 1.0, 0.0, 1)


def passed_on(sender: str, receiver: str) -> Send:
    """Each machine is its cluster."""
    return Send(receiver, Part.BROKER, Forward(sender, 7, sender, 1, WANT))


def told(*sends: tuple[str, Send]) -> ForwardingCheck:
    hops = ForwardingCheck(lambda machine: machine)
    for sender, send in sends:
        hops.sent(sender, send)
    return hops


def test_a_third_hop_is_named():
    chain = [
        (sender, passed_on(sender, receiver))
        for sender, receiver in (("west", "east"), ("east", "north"), ("north", "south"))
    ]
    assert told(*chain[:2]).longest == 2
    with pytest.raises(AssertionError, match="3 times, the last time by north"):
        told(*chain)


@pytest.mark.parametrize("is_answered", [False, True])
def test_what_came_on_two_ways_goes_on_the_shorter_until_that_is_answered(is_answered):
    hops = told(
        ("west", passed_on("west", "north")),
        ("west", passed_on("west", "east")),
        ("east", passed_on("east", "north")),
    )
    if not is_answered:
        hops.sent("north", passed_on("north", "south"))
        return
    hops.sent("north", Send("west", Part.BROKER, Returned("north", 7, 1)))
    with pytest.raises(AssertionError, match="3 times"):
        hops.sent("north", passed_on("north", "south"))

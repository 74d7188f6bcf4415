"""Authorization: which machine may send what; none speaks of another machine's tasks or leases.

A link proves who says something; this is what it is proved for. It is looked at before a part hears
of a message, so that a machine that lies can do harm to its own work alone.
"""

from __future__ import annotations

from iriai.protocol.messages import elections
from iriai.protocol.messages import scheduling as said
from iriai.protocol.messages.fences import Fence, Fenced
from iriai.protocol.messages.gossip import ProbeAnswer, ProbeMissed
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.protocol.messages.reservations import (
    Book,
    Booked,
    NodesOffered,
    NotBooked,
    SeekNodes,
    Unbook,
)
from iriai.protocol.messages.rpc import Inform
from iriai.protocol.messages.steps import (
    ForgetStep,
    Step,
    StepAnswer,
    StepBegun,
    StepEnded,
    StopStep,
)
from iriai.protocol.messages.streams import AskOutput, Input, InputTaken, Output
from iriai.protocol.messages.suspension import ReturnCpus, Suspend, Suspended, Vacate

_ANSWERS = (ProbeAnswer, ProbeMissed, elections.BrokerIs, elections.Heard, Inform, StepAnswer)
# Tuples: a union would be made anew for each message.
_TO_TASKS = (AskOutput, Input, Fenced)
"""Also to job steps."""
_TO_SEATS = (said.Run, said.Stop, Suspend, said.Acknowledge)
_TO_STEPS = (Step, StopStep, ForgetStep)
_CLAIMS = (said.Accepted, said.Begun, Suspended)
_OF_STEPS = (StepBegun, StepEnded)
_STREAMS = (Output, InputTaken, Fence)
_REPORTS = (said.Renew, said.Idle, said.Counted, said.Wants)
_REQUESTS = (said.Want, said.Withdraw, said.Decline, said.Explain, Proposed)
_PROSPECTS = (said.Promise, said.Explained, Propose)
BROKER_ONLY = (said.Charging, said.Quiet, ReturnCpus, said.Cycle, Vacate, NodesOffered, Propose)
"""Messages that only the broker that a machine follows may send to it."""
_BETWEEN_CLUSTERS = (said.Summary, said.Forward, said.Returned)


def is_authorized(sender: str, receiver: str, message: said.Message) -> bool:
    """Return whether the machine `sender` may send `message` to the machine `receiver`."""
    if isinstance(message, _TO_TASKS):
        return message.attempt.home == sender
    if isinstance(message, _TO_SEATS):
        return message.attempt.home == sender and not message.attempt.step
    if isinstance(message, _TO_STEPS):
        return message.attempt.home == sender and message.attempt.step > 0
    if isinstance(message, _CLAIMS):
        return _is_of(message, sender, receiver) and not message.attempt.step
    if isinstance(message, _OF_STEPS):
        return _is_of(message, sender, receiver) and message.attempt.step > 0
    if isinstance(message, said.Refusal):
        return message.reason.machine == sender and message.attempt.home == receiver
    if isinstance(message, _STREAMS):
        return message.attempt.home == receiver
    if isinstance(message, said.End):
        attempt = message.attempt
        is_own = message.result.machine == sender and attempt.home == receiver
        return is_own and not attempt.step
    if isinstance(message, said.Renewed):
        return message.home == sender
    if isinstance(message, _REPORTS):
        return message.machine == sender
    if isinstance(message, _REQUESTS):
        return message.job.home == sender
    if isinstance(message, said.Match):
        return message.job.home == receiver and message.broker in ("", sender)
    if isinstance(message, _PROSPECTS):
        return message.job.home == receiver
    if isinstance(message, _BETWEEN_CLUSTERS):
        return message.broker == sender
    return _is_of_reservation(sender, receiver, message)


def _is_of_reservation(sender: str, receiver: str, message: said.Message) -> bool:
    """Return whether a home speaks of its own reservations, and a machine of its own bookings."""
    if isinstance(message, Book):
        return message.booking.reservation.home == sender
    if isinstance(message, SeekNodes | Unbook):
        return message.reservation.home == sender
    if isinstance(message, Booked | NotBooked):
        return message.machine == sender and message.reservation.home == receiver
    if isinstance(message, NodesOffered):
        return message.reservation.home == receiver
    return True


def _is_of(
    message: said.Accepted | said.Begun | Suspended | StepBegun | StepEnded,
    sender: str,
    receiver: str,
) -> bool:
    return message.machine == sender and message.attempt.home == receiver


def is_answer(message: said.Message) -> bool:
    """Whether this was asked for, and is asked for again where it does not arrive.

    Nobody waits for a sign that it did: a link is not looked after for its sake.
    """
    return isinstance(message, _ANSWERS)


def is_of_cluster(cluster: str, message: said.Message) -> bool:
    """Return whether a machine of `cluster` may send `message`: none speaks for another cluster."""
    return not isinstance(message, said.Summary | said.Forward) or message.cluster == cluster

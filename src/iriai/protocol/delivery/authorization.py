"""Authorization: which machine may send what; none speaks of another machine's tasks or leases.

A link proves who says something; this is what it is proved for. It is looked at before a part hears
of a message, so that a machine that lies can do harm to its own work alone.
"""

from __future__ import annotations

from iriai.protocol.messages.gossip import ProbeAnswer, ProbeMissed
from iriai.protocol.messages.rpc import Inform
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    Begun,
    BrokerIs,
    Counted,
    Decline,
    End,
    Explain,
    Explained,
    Forward,
    Heard,
    Idle,
    Match,
    Message,
    Promise,
    Refusal,
    Renew,
    Renewed,
    Returned,
    Run,
    Stop,
    Summary,
    Want,
    Wants,
    Withdraw,
)
from iriai.protocol.messages.streams import AskOutput, Input, InputTaken, Output

_ANSWERS = (ProbeAnswer, ProbeMissed, BrokerIs, Heard, Inform)


def is_authorized(sender: str, receiver: str, message: Message) -> bool:
    """Return whether the machine `sender` may send `message` to the machine `receiver`."""
    if isinstance(message, Run | Stop | Acknowledge | AskOutput | Input):
        return message.attempt.home == sender
    if isinstance(message, Accepted | Begun):
        return message.machine == sender and message.attempt.home == receiver
    if isinstance(message, Refusal):
        return message.reason.machine == sender and message.attempt.home == receiver
    if isinstance(message, Output | InputTaken):
        return message.attempt.home == receiver
    if isinstance(message, End):
        return message.result.machine == sender and message.attempt.home == receiver
    if isinstance(message, Renewed):
        return message.home == sender
    if isinstance(message, Renew | Idle | Counted | Wants):
        return message.machine == sender
    if isinstance(message, Want | Withdraw | Decline | Explain):
        return message.job.home == sender
    if isinstance(message, Match):
        return message.job.home == receiver and message.broker in ("", sender)
    if isinstance(message, Promise | Explained):
        return message.job.home == receiver
    if isinstance(message, Summary | Forward | Returned):
        return message.broker == sender
    return True


def is_answer(message: Message) -> bool:
    """Whether this was asked for, and is asked for again where it does not arrive.

    Nobody waits for a sign that it did: a link is not looked after for its sake.
    """
    return isinstance(message, _ANSWERS)


def is_of_cluster(cluster: str, message: Message) -> bool:
    """Return whether a machine of `cluster` may send `message`: none speaks for another cluster."""
    return not isinstance(message, Summary | Forward) or message.cluster == cluster

"""Messages between parts of different machines, as bytes: each with the tag of its kind."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from iriai.model.bounds import Word, decoded
from iriai.model.job import limits_problem
from iriai.protocol.messages import (
    elections,
    fences,
    gossip,
    proposals,
    reservations,
    rpc,
    scheduling,
    steps,
    streams,
    suspension,
)
from iriai.protocol.messages.scheduling import Message

PARTS_VERSION = 12
"""Raised with every change of the messages that an older machine would misread. Both ends of a link
must have the same."""

KINDS: Mapping[str, Mapping[str, type[Message]]] = {
    "node": {
        "Run": scheduling.Run,
        "Stop": scheduling.Stop,
        "Suspend": suspension.Suspend,
        "ReturnCpus": suspension.ReturnCpus,
        "Cycle": scheduling.Cycle,
        "Vacate": suspension.Vacate,
        "Acknowledge": scheduling.Acknowledge,
        "Renewed": scheduling.Renewed,
        "Quiet": scheduling.Quiet,
        "Charging": scheduling.Charging,
        "Step": steps.Step,
        "StopStep": steps.StopStep,
        "ForgetStep": steps.ForgetStep,
        "Book": reservations.Book,
        "Unbook": reservations.Unbook,
    },
    "home": {
        "Match": scheduling.Match,
        "Promise": scheduling.Promise,
        "Explained": scheduling.Explained,
        "Propose": proposals.Propose,
        "Accepted": scheduling.Accepted,
        "Refusal": scheduling.Refusal,
        "Begun": scheduling.Begun,
        "Suspended": suspension.Suspended,
        "End": scheduling.End,
        "Renew": scheduling.Renew,
        "StepBegun": steps.StepBegun,
        "StepEnded": steps.StepEnded,
        "NodesOffered": reservations.NodesOffered,
        "Booked": reservations.Booked,
        "NotBooked": reservations.NotBooked,
    },
    "broker": {
        "Idle": scheduling.Idle,
        "Counted": scheduling.Counted,
        "Want": scheduling.Want,
        "Withdraw": scheduling.Withdraw,
        "Wants": scheduling.Wants,
        "Decline": scheduling.Decline,
        "Explain": scheduling.Explain,
        "Summary": scheduling.Summary,
        "Forward": scheduling.Forward,
        "Returned": scheduling.Returned,
        "SeekNodes": reservations.SeekNodes,
        "Proposed": proposals.Proposed,
    },
    "membership": {
        "Probe": gossip.Probe,
        "ProbeFor": gossip.ProbeFor,
        "ProbeAnswer": gossip.ProbeAnswer,
        "ProbeMissed": gossip.ProbeMissed,
    },
    "directory": {
        "Offer": gossip.Offer,
        "Counteroffer": gossip.Counteroffer,
        "Wanted": gossip.Wanted,
        "Entries": gossip.Entries,
        "Outline": gossip.Outline,
        "Detail": gossip.Detail,
        "Locate": gossip.Locate,
        "Located": gossip.Located,
    },
    "succession": {
        "AskBroker": elections.AskBroker,
        "BrokerIs": elections.BrokerIs,
        "Heard": elections.Heard,
    },
    "inquiry": {
        "Inquire": rpc.Inquire,
        "Inform": rpc.Inform,
    },
    "streams": {
        "AskOutput": streams.AskOutput,
        "Output": streams.Output,
        "Input": streams.Input,
        "InputTaken": streams.InputTaken,
        "Fence": fences.Fence,
        "Fenced": fences.Fenced,
        "StepRequest": steps.StepRequest,
        "StepAnswer": steps.StepAnswer,
    },
}
"""What may be said to each part, by its tag. Tags are on the wire: a class may be renamed, its tag
stays."""
_TAGS: Mapping[type[Message], str] = {
    kind: tag for kinds in KINDS.values() for tag, kind in kinds.items()
}
_decoders: Mapping[type[Message], msgspec.msgpack.Decoder[Message]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in _TAGS
}
_encode = msgspec.msgpack.Encoder().encode


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """A message with its receiving part."""

    part: Word
    kind: Word
    """Its tag."""
    body: msgspec.Raw


def tag_of(message: Message) -> str:
    """Return the tag of a message's kind, which people see as well."""
    return _TAGS[type(message)]


def pack(part: str, message: Message) -> Envelope:
    """Encode `message` for `part` of another machine."""
    return Envelope(part, _TAGS[type(message)], msgspec.Raw(_encode(message)))


def unpack(envelope: Envelope) -> Message:
    """The message in an envelope.

    Raises:
        msgspec.ValidationError: nothing of this kind is said to this part, or no machine could do
            what it asks.
        msgspec.DecodeError: it cannot be read.
    """
    kind = KINDS.get(envelope.part, {}).get(envelope.kind)
    if kind is None:
        raise msgspec.ValidationError(f"'{envelope.kind}' is not a message for '{envelope.part}'")
    message = decoded(_decoders[kind], envelope.body)
    if isinstance(message, scheduling.Run) and (words := limits_problem(message.spec)):
        raise msgspec.ValidationError(f"of {message.attempt}, {words}")
    return message

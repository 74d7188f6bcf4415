"""Messages between parts of different machines, as bytes: each with the tag of its kind."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from iriai.model.bounds import Word, decoded
from iriai.model.job import limits_problem
from iriai.protocol.messages.gossip import (
    Counteroffer,
    Detail,
    Entries,
    Offer,
    Outline,
    Probe,
    ProbeAnswer,
    ProbeFor,
    ProbeMissed,
    Wanted,
)
from iriai.protocol.messages.output import AskOutput, Output
from iriai.protocol.messages.rpc import Inform, Inquire
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    AskBroker,
    Begun,
    BrokerIs,
    Charging,
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
    Quiet,
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

PARTS_VERSION = 7
"""Raised with every change of the messages that an older machine would misread. Both ends of a link
must have the same."""

KINDS: Mapping[str, Mapping[str, type[Message]]] = {
    "node": {
        "Run": Run,
        "Stop": Stop,
        "Acknowledge": Acknowledge,
        "Renewed": Renewed,
        "Quiet": Quiet,
        "Charging": Charging,
    },
    "home": {
        "Match": Match,
        "Promise": Promise,
        "Explained": Explained,
        "Accepted": Accepted,
        "Refusal": Refusal,
        "Begun": Begun,
        "End": End,
        "Renew": Renew,
    },
    "broker": {
        "Idle": Idle,
        "Counted": Counted,
        "Want": Want,
        "Withdraw": Withdraw,
        "Wants": Wants,
        "Decline": Decline,
        "Explain": Explain,
        "Summary": Summary,
        "Forward": Forward,
        "Returned": Returned,
    },
    "membership": {
        "Probe": Probe,
        "ProbeFor": ProbeFor,
        "ProbeAnswer": ProbeAnswer,
        "ProbeMissed": ProbeMissed,
    },
    "directory": {
        "Offer": Offer,
        "Counteroffer": Counteroffer,
        "Wanted": Wanted,
        "Entries": Entries,
        "Outline": Outline,
        "Detail": Detail,
    },
    "succession": {
        "AskBroker": AskBroker,
        "BrokerIs": BrokerIs,
        "Heard": Heard,
    },
    "inquiry": {
        "Inquire": Inquire,
        "Inform": Inform,
    },
    "output": {
        "AskOutput": AskOutput,
        "Output": Output,
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
    """One message and whom it is for."""

    part: Word
    kind: Word
    """Its tag."""
    body: msgspec.Raw


def tag_of(message: Message) -> str:
    """How the kind of `message` is called on the wire, and to people."""
    return _TAGS[type(message)]


def pack(part: str, message: Message) -> Envelope:
    """`message`, for `part` of another machine."""
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
    if isinstance(message, Run) and (words := limits_problem(message.spec)):
        raise msgspec.ValidationError(f"of {message.attempt}, {words}")
    return message

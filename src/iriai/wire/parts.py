"""Messages between parts of different machines, as bytes: each with the name of its kind."""

from __future__ import annotations

import typing
from collections.abc import Mapping

import msgspec

from iriai.model.bounds import Word
from iriai.model.decoding import decoded
from iriai.model.limits import limits_problem
from iriai.protocol.inquiry_messages import ToInquiry
from iriai.protocol.messages import (
    BetweenClusters,
    Message,
    Run,
    ToBroker,
    ToHome,
    ToNode,
    ToSuccession,
)
from iriai.protocol.output_messages import ToOutput
from iriai.protocol.peer_messages import ToDirectory, ToMembership

PARTS_VERSION = 6
"""Raised with every change of the messages that an older machine would misread. Both ends of a link
must have the same."""

_KINDS: Mapping[str, Mapping[str, type[Message]]] = {
    part: {kind.__name__: kind for kind in typing.get_args(union)}
    for part, union in (
        ("node", ToNode),
        ("home", ToHome),
        ("broker", ToBroker | BetweenClusters),
        ("membership", ToMembership),
        ("directory", ToDirectory),
        ("succession", ToSuccession),
        ("inquiry", ToInquiry),
        ("output", ToOutput),
    )
}
"""What may be said to each part, by name."""
_decoders: Mapping[str, msgspec.msgpack.Decoder[Message]] = {
    name: msgspec.msgpack.Decoder(kind) for kinds in _KINDS.values() for name, kind in kinds.items()
}
_encode = msgspec.msgpack.Encoder().encode


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """One message and whom it is for."""

    part: Word
    kind: Word
    body: msgspec.Raw


def pack(part: str, message: Message) -> Envelope:
    """`message`, for `part` of another machine."""
    return Envelope(part, type(message).__name__, msgspec.Raw(_encode(message)))


def unpack(envelope: Envelope) -> Message:
    """The message in an envelope.

    Raises:
        msgspec.ValidationError: nothing of this kind is said to this part, or no machine could do
            what it asks.
        msgspec.DecodeError: it cannot be read.
    """
    if envelope.kind not in _KINDS.get(envelope.part, ()):
        raise msgspec.ValidationError(f"'{envelope.kind}' is nothing to say to '{envelope.part}'")
    message = decoded(_decoders[envelope.kind], envelope.body)
    if isinstance(message, Run) and (words := limits_problem(message.spec)):
        raise msgspec.ValidationError(f"of {message.attempt}, {words}")
    return message

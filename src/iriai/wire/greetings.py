"""The handshake of two machines that makes a connection a link (docs/spec/005, section 1)."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Count, Name, Word, Words, decoded
from iriai.system.frames import frame

LINK_VERSION = 1
"""Raised with every change of the frames of a link that an older machine would misread."""
GREETING_BYTES_MAX = 4096
"""Of a frame before there is a link: names, versions and a sentence."""


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first word of the machine that dialled. Later versions only append to it."""

    link_version: Count
    parts_version: Count
    """`wire.parts.PARTS_VERSION`."""
    version: Name
    """Of iriai, for people."""
    machine: Name
    """The sender's name; its certificate has to say the same."""
    other: Name
    """Whom it means to speak to; empty where it knows an address only."""
    instance: Word
    """Random, of the sender's state directory and this run of its daemon: one that has started
    again has forgotten what was said to it."""


class Agreed(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The machine that was dialled wants the link as well."""

    version: Name
    machine: Name
    instance: Word


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """It does not."""

    code: Word
    message: Words


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The machine that dialled still wants it: from here on there are frames of `wire.links`."""


GreetingFrame = Greeting | Agreed | Rejected | Begin

YIELD = "yield"
"""Declined: I am dialling you myself."""
OTHER_VERSION = "other-version"
OTHER_MACHINE = "other-machine"
OWN_NAME = "own-name"
TOO_MANY = "too-many"

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[GreetingFrame] = msgspec.msgpack.Decoder(GreetingFrame)


def greeting_frame(content: GreetingFrame) -> bytes:
    """`content` as one frame."""
    return frame(_encode(content))


def decode_greeting(payload: bytes) -> GreetingFrame:
    """The content of a frame; raises `msgspec.MsgspecError`."""
    return decoded(_decoder, payload)

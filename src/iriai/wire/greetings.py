"""The handshake of two machines that makes a connection a link (docs/spec/005, section 1)."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Count, Name, Word, Words, decoded
from iriai.system.frames import frame

LINK_VERSION = 1
"""Raised with every change of the frames of a link that an older machine would misread."""
GREETING_BYTES_MAX = 4096
"""The longest frame of a handshake: names, versions and a sentence."""


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first frame of the machine that connects. Later versions only append to it."""

    link_version: Count
    parts_version: Count
    """`wire.parts.PARTS_VERSION`."""
    version: Name
    """Of iriai, for people."""
    machine: Name
    """The sender's name; its certificate has to say the same."""
    other: Name
    """The machine that it wants to reach; empty if it knows an address only."""
    instance: Word
    """Random, of the sender's state directory and this run of its daemon: one that has started
    again has forgotten what was said to it."""


class Agreed(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The accepting machine agrees to the link."""

    version: Name
    machine: Name
    instance: Word


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The accepting machine refuses the link."""

    code: Word
    message: Words


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The connecting machine confirms the link; frames of `wire.links` follow."""


GreetingFrame = Greeting | Agreed | Rejected | Begin

YIELD = "yield"
"""Refused, because the accepting machine is opening a link itself."""
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

"""What two machines say to each other over a link, once it is there (docs/spec/002, section 6).

A link begins as a client's connection whose `Link` request was answered with `Linked`; from then on
both ends send these frames, whenever they like.
"""

from __future__ import annotations

import msgspec

from iriai.wire.frames import frame
from iriai.wire.machines import Drain, Resume
from iriai.wire.parts import Envelope

BATCH_BYTES_MAX = 16 << 20
"""Of the texts in one frame, about: the peer works on the first while the second is on its way."""


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What one turn has to say to parts of the other machine, in order."""

    messages: tuple[Envelope, ...]
    texts: tuple[tuple[str, bytes], ...] = ()
    """Environments, scripts and inputs by their digests: those that the messages name and that were
    not sent before on this link."""
    forget: bool = False
    """Drop the texts sent before, but for those of claims: the sender counts on none of them."""
    passed: tuple[tuple[int, int], ...] = ()
    """(job number, count): descriptors that clients passed with these jobs travel beside the frame,
    in this order."""


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Are you there? Each second."""


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Answer to `Ping`. Any frame shows that its sender is there."""


class Bid(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """An operator's request that the other machine is to carry out."""

    number: int
    """The sender's own, ascending; `Obeyed` repeats it."""
    body: Drain | Resume
    by: str
    """The operator."""


class Obeyed(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Answer to `Bid`: it is done and durable, or a `model.problem` says why not."""

    number: int
    exit_code: int = 0
    code: str = ""
    message: str = ""
    hint: str = ""


LinkFrame = Batch | Ping | Pong | Bid | Obeyed

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[LinkFrame] = msgspec.msgpack.Decoder(LinkFrame)


def link_frame(content: LinkFrame) -> bytes:
    """`content` as one frame."""
    return frame(_encode(content))


def decode_link_frame(payload: bytes) -> LinkFrame:
    """The content of a frame; raises `msgspec.MsgspecError`."""
    return _decoder.decode(payload)

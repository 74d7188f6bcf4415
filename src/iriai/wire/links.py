"""Messages of two machines over a link (docs/spec/005, section 2).

On one host a link begins as a client's connection whose `Link` request was answered with `Linked`
(docs/spec/002, section 7), over a network with a greeting (`wire.greetings`); from then on both
ends send these frames, whenever they like.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import (
    Bits,
    Content,
    Many,
    Name,
    Seconds,
    SizeBytes,
    Word,
    Words,
    decoded,
)
from iriai.system.frames import frame
from iriai.wire.parts import Envelope

NETWORK_FRAME_BYTES_MAX = 8 << 20
"""Of a frame that comes over a network. Honest ones hold a turn's messages, in batches of about an
eighth of this; larger ones are someone who wants our memory."""
BATCH_BYTES_MAX = 1 << 20
"""Of a batch, about: a ping waits behind one for a tenth of a second on a
slow line."""
PIECE_BYTES = 256 << 10
"""Of a text: see `BATCH_BYTES_MAX`."""
QUIET_S = 35.0
"""How long nothing may be heard before a ping. Longer than the 30 s after which
nodes and homes tell their broker again, so that its links need none; shorter than the minute after
which hasty routers between an outward-only machine and the world forget a connection."""
IDLE_S = 60.0
"""A link that carried nothing for so long is closed. Longer: more links are kept in a cluster of
hundreds; shorter: machines that talk now and then greet each other again and again."""
CARRY_BYTES_MAX = 32 << 10
"""Size of one `Carry`: two records of TLS, so that circuits share a link evenly."""


class OutOfPlace(ValueError):
    """A message that is not permitted on this link; the link ends."""


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Messages of one turn for parts of the other machine, in order."""

    messages: Annotated[tuple[Envelope, ...], Many]
    texts: Annotated[tuple[tuple[Word, Content], ...], Many] = ()
    """Environments, scripts and inputs by their digests: those that the messages name and that were
    not sent before on this link."""
    forget: bool = False
    """Whether the receiver may drop all texts sent before, except those of claims."""


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A question whether the other end is online."""

    steady_s: Seconds
    """The sender's clock since boot; `Pong` repeats it."""


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Answer to `Ping`. Any other frame shows as well that its sender is online."""

    steady_s: Seconds
    """Of the `Ping`."""
    wall_s: Seconds
    """The answerer's wall clock when it answered."""


class Piece(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A part of a text that a later `Batch` needs: frames are small."""

    digest: Word
    content: Content
    is_last: bool


class Bye(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The last frame of the sender on this link."""

    reason: Words = ""
    """Empty if the link is merely not needed any more."""


class Carry(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Bytes of a circuit, for the machine at its other end or from it."""

    opener: Name
    """The machine that opened the circuit."""
    other: Name
    """The machine that it was opened to."""
    number: Bits
    """A random number of the opener."""
    content: Content


class Credit(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The sender has processed bytes of a circuit; as many more may be sent."""

    opener: Name
    other: Name
    number: Bits
    taken_bytes: SizeBytes


class CarryOver(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A circuit is over."""

    opener: Name
    other: Name
    number: Bits
    reason: Words


CircuitFrame = Carry | Credit | CarryOver
LinkFrame = Batch | Ping | Pong | Piece | Bye | CircuitFrame

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[LinkFrame] = msgspec.msgpack.Decoder(LinkFrame)


def link_frame(content: LinkFrame) -> bytes:
    """`content` as one frame."""
    return frame(_encode(content))


def decode_link_frame(payload: bytes) -> LinkFrame:
    """The content of a frame; raises `msgspec.MsgspecError`."""
    return decoded(_decoder, payload)

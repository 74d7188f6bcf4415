"""Requests and replies of the client socket, as bytes."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Count, decoded
from iriai.system.frames import frame
from iriai.wire.envelopes import Reply, Request

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)


class _Numbered(msgspec.Struct, array_like=True):
    """The first field of any request."""

    number: Count


_numbers = msgspec.msgpack.Decoder(_Numbered)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)

MalformedMessage = msgspec.MsgspecError
"""Raised by the decoders: the peer's bytes are not a message of this protocol."""


def request_frame(request: Request) -> bytes:
    """`request` as one frame."""
    return frame(_encoder.encode(request))


def reply_frame(reply: Reply) -> bytes:
    """`reply` as one frame."""
    return frame(_encoder.encode(reply))


def decode_request(payload: bytes) -> Request:
    """The request in a frame; raises `MalformedMessage`."""
    return decoded(_requests, payload)


def number_of(payload: bytes) -> int | None:
    """Return the number of a request with an invalid body; None if it is no request."""
    try:
        return decoded(_numbers, payload).number
    except MalformedMessage:
        return None


def decode_reply(payload: bytes) -> Reply:
    """The reply in a frame; raises `MalformedMessage`."""
    return decoded(_replies, payload)

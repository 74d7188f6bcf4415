"""Requests and replies of the client socket, as bytes."""

from __future__ import annotations

import msgspec

from iriai.model.decoding import decoded
from iriai.wire.frames import frame
from iriai.wire.requests import Reply, Request

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
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


def decode_reply(payload: bytes) -> Reply:
    """The reply in a frame; raises `MalformedMessage`."""
    return decoded(_replies, payload)

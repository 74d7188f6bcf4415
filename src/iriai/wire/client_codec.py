"""Requests and replies of the client socket, as bytes, for who asks.

Who asks knows what the answer is, and decodes that alone: to prepare for all answers there are
takes longer than most commands.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from iriai.model.bounds import Count, decoded
from iriai.system.frames import frame
from iriai.wire.exchange import ClientAnswer, ClientRequest
from iriai.wire.requests import Failure, Notice

_A = TypeVar("_A", bound=ClientAnswer)
_encoder = msgspec.msgpack.Encoder()


class NumberedAnswer(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """An `Answer` whose body is not decoded yet."""

    number: Count
    body: msgspec.Raw


NumberedReply = NumberedAnswer | Failure | Notice
_replies: msgspec.msgpack.Decoder[NumberedReply] = msgspec.msgpack.Decoder(NumberedReply)


def numbered_frame(number: int, body: ClientRequest[Any]) -> bytes:
    """Return `body` as a request of this number, as one frame."""
    return frame(_encoder.encode((number, body)))


def decode_numbered(payload: bytes) -> NumberedReply:
    """Return the reply in a frame; raises `msgspec.MsgspecError`."""
    return decoded(_replies, payload)


def decode_answer(body: msgspec.Raw, kind: type[_A]) -> _A:
    """Return the answer of this kind; raises `msgspec.MsgspecError` if it is another."""
    answer: _A = decoded(_decoder(kind), body)
    return answer


@cache
def _decoder(kind: type[ClientAnswer]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)

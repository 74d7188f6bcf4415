"""What others send is good or malformed; there is no third."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.bounds import decoded
from iriai.wire.codec import MalformedMessage, decode_request, request_frame
from iriai.wire.envelopes import Request
from iriai.wire.requests import (
    Show,
)

WHOLE = request_frame(Request(1, Show("ume-1")))[4:]


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_request_with_a_wrong_byte_is_malformed_or_another_request(place: int, byte: int):
    payload = bytearray(WHOLE)
    payload[place] = byte
    with suppress(MalformedMessage):
        assert isinstance(decode_request(bytes(payload)), Request)


def test_text_that_is_not_utf8_is_malformed():
    with pytest.raises(MalformedMessage, match="UTF-8"):
        decode_request(WHOLE.replace(b"ume", b"um\xe3"))
    assert issubclass(MalformedMessage, msgspec.MsgspecError)


@pytest.mark.parametrize("depth", [1_200, 200_000])
@pytest.mark.parametrize(
    "decoder",
    [msgspec.msgpack.Decoder(kind) for kind in (object, msgspec.Raw, Show)],
)
def test_nested_values_are_malformed(decoder, depth):
    content = b"\x91" * depth + b"\xc0"
    for each in (content, b"\x82\xa4type\xa4show\xa7unknown" + content):
        with suppress(MalformedMessage):  # `Raw` is passed over, and may be as deep as it likes
            decoded(decoder, each)


def test_nested_json_is_malformed():
    with pytest.raises(MalformedMessage, match="nested"):
        decoded(msgspec.json.Decoder(), b"[" * 100_000)


def test_what_takes_more_memory_than_there_is_is_malformed():
    def decode(_: bytes) -> None:
        raise MemoryError

    with pytest.raises(MalformedMessage, match="too large"):
        decoded(SimpleNamespace(decode=decode), b"")

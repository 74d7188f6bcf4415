"""What others send is good or malformed; there is no third."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.wire.codec import MalformedMessage, decode_request, request_frame
from iriai.wire.requests import Request, Show

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

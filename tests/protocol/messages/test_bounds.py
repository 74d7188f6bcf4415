"""What machines say to each other is within bounds, or malformed; there is no third."""

from __future__ import annotations

from contextlib import suppress
from math import inf, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account, AttemptId
from iriai.model.records import AttemptResult, LedgerRow
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.scheduling import Counted, End, Idle, Renew, Renewed
from iriai.wire.codec import decode_reply, decode_request, request_frame
from iriai.wire.envelopes import Request
from iriai.wire.greetings import Greeting, decode_greeting, greeting_frame
from iriai.wire.inquiries import AskMatchFor, decode_question, decode_response, encode_question
from iriai.wire.joining import RenewCertificate
from iriai.wire.links import Batch, Ping, decode_link_frame, link_frame
from iriai.wire.parts import Envelope, pack, unpack
from tests.model.test_decoding import WHOLE

ATTEMPT = AttemptId("ume", 1, 0, 1)
RESULT = AttemptResult(ATTEMPT, "take", EndCause.COMPLETED, 0, None, Usage(), 1.0, 2.0, 1.0, 1.0)


def _result(**changes: object) -> End:
    return End(msgspec.structs.replace(RESULT, **changes))


@pytest.mark.parametrize(
    "message",
    [
        Renew("take", inf),
        Renew("take", nan),
        Renewed("ume", -inf),
        _result(charge_s=nan),
        _result(charge_s=inf),
        _result(elapsed_s=-1.0),
        _result(usage=Usage(1.0, 2**64 - 1)),
        _result(usage=Usage(nan)),
        _result(factors=((nan, 1.0),)),
        _result(message="x" * (2 << 20)),
        Idle("take", 1, 1, Resources(1), (), (), (), (), True, None, speed=0.0),
        Counted("take", (), ((ATTEMPT, inf),)),
        Counted("take", (LedgerRow(Account("g", "u"), nan, 0.0, 1, 1.0),), ()),
        Counted("take", (LedgerRow(Account("g", "u" * 5000), 1.0, 0.0, 1, 1.0),), ()),
    ],
)
def test_a_message_out_of_bounds_is_malformed(message: object):
    """T3f, T3g, T3h: whoever counts with it never sees it."""
    part = "broker" if isinstance(message, Counted | Idle) else "home"
    part = "node" if isinstance(message, Renewed) else part
    with pytest.raises(msgspec.MsgspecError, match="Expected"):
        unpack(pack(part, message))  # type: ignore[arg-type]


def test_a_renewal_of_a_certificate_at_no_time_is_malformed():
    """T3f: at the port."""
    for wall_s in (inf, -inf, nan):
        asked = request_frame(Request(1, RenewCertificate(b"", b"", wall_s)))[4:]
        with pytest.raises(msgspec.MsgspecError, match="wall_s"):
            decode_request(asked)


@pytest.mark.parametrize("depth", [2_000, 300_000])
def test_nested_values_in_what_links_bring_are_malformed(depth: int):
    """T3c, T3d: in a frame, in a message within it, and in a question."""
    deep = b"\x81\xa7unknown" + b"\x91" * depth + b"\xc0"
    for read in (decode_question, decode_response, decode_greeting, decode_link_frame):
        with pytest.raises(msgspec.MsgspecError):
            read(deep)
    with pytest.raises(msgspec.MsgspecError):
        unpack(Envelope("home", "Renew", msgspec.Raw(deep)))


END = link_frame(Batch((pack("home", _result()), pack("home", Renew("take", 1.0)))))[4:]
OUTSIDE = [
    (decode_request, WHOLE),
    (decode_link_frame, END),
    (decode_link_frame, link_frame(Ping(1.0))[4:]),
    (decode_greeting, greeting_frame(Greeting(1, 1, "1", "ume", "take", "i"))[4:]),
    (decode_question, encode_question(AskMatchFor("Cpus > 1", "g", "u"))),
    (decode_response, msgspec.msgpack.encode({"type": "fit"})),
    (decode_reply, msgspec.msgpack.encode([2, 1, 2, "code", "message", "hint"])),
]


@given(st.data())
def test_whatever_is_done_to_a_message_it_is_read_or_malformed(data: st.DataObject):
    read, whole = data.draw(st.sampled_from(OUTSIDE))
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(place, min(len(content), place + 9)))
        content[place:end] = data.draw(st.binary(max_size=9))
    with suppress(msgspec.MsgspecError):
        said = read(bytes(content))
        for envelope in said.messages if isinstance(said, Batch) else ():
            with suppress(msgspec.MsgspecError):
                unpack(envelope)

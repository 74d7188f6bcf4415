"""Text that is not UTF-8 is a malformed message, wherever it comes from, and ends nobody."""

import msgspec
import pytest

from iriai.model.ad import MachineAd, attributes_of
from iriai.model.ids import AttemptId
from iriai.protocol.ledger.ledger import BatchRow, LedgerBatch, Taken, batch_body, read_batch
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.scheduling import Acknowledge
from iriai.system.frames import FrameReader
from iriai.wire.greetings import Rejected, decode_greeting, greeting_frame
from iriai.wire.links import Bye, decode_link_frame, link_frame
from iriai.wire.parts import Envelope, pack, unpack

TEXT, FOREIGN = "text", b"te\xfft"


def spoilt(content: bytes) -> bytes:
    assert TEXT.encode() in content
    return content.replace(TEXT.encode(), FOREIGN)


@pytest.mark.parametrize(
    ("decode", "frame"),
    [
        (decode_greeting, greeting_frame(Rejected(TEXT, ""))),
        (decode_link_frame, link_frame(Bye(TEXT))),
    ],
)
def test_a_frame_is_malformed(decode, frame):
    [payload] = FrameReader().feed(spoilt(frame))
    with pytest.raises(msgspec.DecodeError, match="UTF-8"):
        decode(payload)


def test_a_message_of_a_part_is_malformed():
    whole = pack(Part.NODE, Acknowledge(AttemptId(TEXT, 1, 0, 1)))
    envelope = Envelope(whole.part, whole.kind, msgspec.Raw(spoilt(bytes(whole.body))))
    with pytest.raises(msgspec.DecodeError, match="UTF-8"):
        unpack(envelope)


def test_a_ledger_batch_is_malformed():
    row = BatchRow(TEXT, "ann", 1.0, 0.0, 1, 1.0, 0.0)
    taken = read_batch(spoilt(batch_body(LedgerBatch(1, 0.0, (row,)))))
    assert isinstance(taken, Taken)
    assert taken.code == "malformed-batch"


def test_an_ad_has_no_attributes():
    assert attributes_of(MachineAd(spoilt(msgspec.msgpack.encode({TEXT: 1})), "", "")) == {}

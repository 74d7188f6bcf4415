"""A link's messages to frames and back: whole, in order, texts before what needs them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.links.session import CLOCK_AGE_S, LinkSession, PartMessages, TextsReceived
from iriai.model.ids import Account, AttemptId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.text_digest import digest_of
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Run
from iriai.system.frames import FrameReader
from iriai.wire.links import NETWORK_FRAME_BYTES_MAX, PIECE_BYTES, Bye, Pong, link_frame

SPEC = JobSpec(Account("lab", "ann"), "ann", "x", ("true",), "/")
NOW = Instant(1.0, 1.0)
SIZES = st.sampled_from([0, 1, 1000, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])


def runs(sizes: list[int], texts: dict[str, bytes]) -> list[Send]:
    """A message for each size, with a script of so many bytes."""
    sends = []
    for number, size in enumerate(sizes, 1):
        content = bytes([number % 256]) * size
        digest = digest_of(content)
        texts[digest] = content
        attempt = AttemptId("front", number, 0, 1)
        sends.append(Send("b1", Part.NODE, Run(attempt, replace(SPEC, script=digest), None)))
    return sends


@settings(deadline=None)
@given(turns=st.lists(st.lists(SIZES, max_size=5), max_size=4))
def test_what_is_sent_arrives_in_order_after_the_texts_that_it_needs(
    turns: list[list[int]],
):
    near = LinkSession("b1", 0.0)
    far = LinkSession("front", 0.0)
    texts, kept, sent, received = {}, {}, [], []
    for sizes in turns:
        sends = runs(sizes, texts)
        sent += [each.message for each in sends]
        for data in near.frames(sends, texts.__getitem__, 1.0):
            assert len(data) <= NETWORK_FRAME_BYTES_MAX
            for payload in FrameReader().feed(data):
                for event in far.receive(payload, NOW):
                    if isinstance(event, TextsReceived):
                        kept.update(event.texts)
                    else:
                        assert isinstance(event, PartMessages)
                        for message, _ in event.messages:
                            assert isinstance(message, Run)
                            received.append(message)
                            digest = message.spec.script
                            assert not digest or kept[digest] == texts[digest]
    assert received == sent
    assert far.received_bytes <= near.sent_bytes


def test_a_frame_is_counted_and_used_as_its_kind_wants():
    session = LinkSession("b1", 0.0)
    data = session.frame(Bye(), 5.0)
    assert data == link_frame(Bye())
    assert session.sent_bytes == len(data)
    assert session.used_s == 0.0
    assert session.keepalive.is_silent(11.0)


def test_a_clock_is_asked_for_as_long_as_somebody_wants_it():
    link = LinkSession("b1", 0.0)
    assert not link.is_clock_due(100.0), "nobody wants it"
    assert link.clock() is None
    assert link.is_clock_due(100.0)
    assert not link.is_clock_due(100.0), "it was asked"
    answer = link_frame(Pong(100.0, 5000.1))[4:]
    list(link.receive(answer, Instant(100.2, 1000.2)))
    known = link.clock()
    assert known is not None
    assert (round(known.offset_s, 6), round(known.error_s, 6)) == (4000.0, 0.1)
    assert not link.is_clock_due(100.2 + CLOCK_AGE_S - 0.1), "the answer is young"
    assert link.is_clock_due(100.2 + CLOCK_AGE_S)

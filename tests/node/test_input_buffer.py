"""Input of a task: each byte once, in order, however often it is sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.submission import INPUT_BYTES_MAX
from iriai.node.input_buffer import InputBuffer

TEXT = bytes(range(200))
SENT = st.tuples(st.integers(0, 200), st.integers(0, 40))
"""Offset and length of a piece, which may overlap others or leave a gap."""


@given(steps=st.lists(st.one_of(SENT, st.integers(1, 50))))
def test_what_is_written_is_the_beginning_of_what_was_sent(steps):
    buffer, written = InputBuffer(), b""
    for step in steps:
        if isinstance(step, tuple):
            offset, length = step
            buffer.take(offset, TEXT[offset : offset + length], is_end=False)
        elif not buffer.is_empty:
            content = buffer.first()[:step]
            written += content
            buffer.wrote(len(content))
        assert buffer.written == len(written)
    assert TEXT.startswith(written)


@given(cut=st.integers(0, 200))
def test_a_sender_that_begins_again_where_it_was_told_loses_nothing(cut):
    buffer = InputBuffer()
    assert buffer.take(0, TEXT[:cut], is_end=False)
    if cut:
        buffer.wrote(cut)
    assert buffer.take(buffer.written, TEXT[buffer.written :], is_end=True)
    assert buffer.is_ending


def test_what_has_no_room_is_not_taken_and_what_was_taken_stays():
    buffer = InputBuffer()
    assert buffer.take(0, bytes(INPUT_BYTES_MAX), is_end=False)
    assert not buffer.take(INPUT_BYTES_MAX, b"x", is_end=False)
    buffer.wrote(1)
    assert buffer.take(INPUT_BYTES_MAX, b"x", is_end=False)


def test_nothing_follows_the_end():
    buffer = InputBuffer()
    assert buffer.take(0, b"all", is_end=True)
    assert not buffer.take(3, b"more", is_end=False)
    assert buffer.take(3, b"", is_end=True)

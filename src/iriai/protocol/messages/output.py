"""Messages that bring a task's output from its machine to its home (docs/spec/002)."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Content, SizeBytes, Word
from iriai.model.ids import AttemptId

KINDS = ("out", "err")
"""Standard output and standard error."""
PIECE_BYTES = 64 << 10
"""Of one answer: small beside a frame, large beside what it costs. There may be more after it."""


class AskOutput(msgspec.Struct, frozen=True):
    """Home to node: request for an attempt's output from an offset. Answered with `Output`."""

    attempt: AttemptId
    kind: Word
    """One of `KINDS`."""
    offset: SizeBytes


class Output(msgspec.Struct, frozen=True):
    """Node to home: the answer, at once where there is something or nothing more will come."""

    attempt: AttemptId
    kind: Word
    offset: SizeBytes
    """Of the first byte of `content`."""
    content: Content
    is_complete: bool
    """Whether the attempt is over, and this is the end of its output."""


ToOutput = AskOutput | Output

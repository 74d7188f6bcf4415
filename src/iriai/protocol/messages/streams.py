"""Messages that bring a task's output to its home, and its client's input to it (docs/spec/002)."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Content, Count, SizeBytes, Word
from iriai.model.ids import AttemptId
from iriai.model.submission import InputPiece
from iriai.protocol.messages.fences import Fence, Fenced
from iriai.protocol.messages.steps import StepAnswer, StepRequest

PIECE_BYTES = 128 << 10
"""Of one piece: small beside a frame, large beside what it costs."""
CREDIT_BYTES = 1 << 20
"""How much of an output its home lets come without another question."""


class AskOutput(msgspec.Struct, frozen=True):
    """Home to node: request for an attempt's output. Answered with `Output`, piece by piece."""

    attempt: AttemptId
    kind: Word
    """`out` or `err`."""
    offset: SizeBytes
    """All before it has arrived."""
    credit_bytes: SizeBytes
    """How much after `offset` may be sent before the next request."""
    is_first: bool = True
    """Whether to send from `offset` on; else it only renews the credit."""


class Output(msgspec.Struct, frozen=True):
    """Node to home: a piece, as soon as there is one; empty now and then where there is none."""

    attempt: AttemptId
    kind: Word
    offset: SizeBytes
    """Of the first byte of `content`."""
    content: Content
    is_complete: bool
    """Whether the attempt is over, and this is the end of its output."""


class Input(msgspec.Struct, frozen=True):
    """Home to node: what an attempt's client has sent. Answered with `InputTaken`."""

    attempt: AttemptId
    offset: SizeBytes
    """Of the first byte of `content`."""
    content: InputPiece
    is_end: bool = False
    """Whether nothing follows."""
    is_abandoned: bool = False
    """Whether its client is gone: what came is all that comes, and there is no `offset`."""
    window: tuple[Count, Count] | None = None
    """Rows and columns of its terminal from now on; None: as they are."""


class InputTaken(msgspec.Struct, frozen=True):
    """Node to home: so much has gone to the task, once all of an `Input` has, or none of it can."""

    attempt: AttemptId
    offset: SizeBytes
    """Of the first byte that was not passed to the task: what follows has to be sent again."""
    is_open: bool
    """Whether the task can take more."""


ToStreams = AskOutput | Output | Input | InputTaken | StepRequest | StepAnswer | Fence | Fenced

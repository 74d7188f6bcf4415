"""Requests about job steps, and their answers; a part of `wire.envelopes`.

A step is numbered, then ordered under its name: so an order that is repeated after a connection
was lost starts nothing twice (docs/spec/011, section 8).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Expression, Many, Name, SizeBytes, Text, Word
from iriai.model.ids import AttemptId
from iriai.model.submission import InputPiece, Interaction
from iriai.wire.exchange import ClientAnswer, Done, JobRequest
from iriai.wire.requests import READ_WAIT_MAX_S, InputWritten, Outcome, OutputPiece

STILL_UNKNOWN = "members-unknown"
"""The code of the problem that a daemon which has just begun may not know the home yet."""
WaitTime = Annotated[float, msgspec.Meta(ge=0, le=READ_WAIT_MAX_S)]


class StepNumbered(ClientAnswer, frozen=True, tag="step-numbered"):
    """Answer to `NumberStep`: the name is used up, and nothing is started yet."""

    step: AttemptId
    rank: Count
    machine: Name
    """Of the seat."""


class NumberStep(JobRequest[StepNumbered], frozen=True, tag="number-step"):
    """Name a new step beside a rank of a running task."""

    id: Expression
    """`JOB`, `JOB.TASK` or `JOB.TASK.RANK`."""
    machine: Name = ""
    """Beside the first rank on this machine; empty: beside the rank of `id`."""


class OrderStep(JobRequest[Done], frozen=True, tag="order-step"):
    """Start the step of that name, unless it was started; answered when it runs, or is over."""

    step: AttemptId
    rank: Count
    machine: Name
    command: Annotated[tuple[Text, ...], Many]
    interaction: Interaction
    takes_input: bool = False
    """Whether the client sends its standard input, or what is typed, with `WriteStep`."""
    window: tuple[Count, Count] = (0, 0)
    terminal: Name = ""
    """The value of TERM; empty: as the job has it."""


class StepState(ClientAnswer, frozen=True, tag="step-state"):
    """Answer to `AwaitStep`."""

    outcome: Outcome | None
    """None: it is not over."""


class AwaitStep(JobRequest[StepState], frozen=True, tag="await-step"):
    """Ask how a step ended; answered when it has, at the latest after `wait_s`."""

    step: AttemptId
    wait_s: WaitTime = 0.0


class ReadStep(JobRequest[OutputPiece], frozen=True, tag="read-step"):
    """Ask for output of a step."""

    step: AttemptId
    kind: Word
    """`out` or `err`."""
    offset: SizeBytes
    wait_s: WaitTime = 0.0
    """How long to wait where nothing is there yet."""


class WriteStep(JobRequest[InputWritten], frozen=True, tag="write-step"):
    """Pass on the client's standard input, or what was typed, to a step, as `WriteInput` does."""

    counted_bytes = 128 << 10  # it is written as fast as its task reads

    step: AttemptId
    offset: SizeBytes
    content: InputPiece
    is_end: bool = False
    window: tuple[Count, Count] | None = None


class EndStep(JobRequest[Done], frozen=True, tag="end-step"):
    """End a step: SIGTERM, and SIGKILL after the job's grace."""

    step: AttemptId


class LeaveStep(JobRequest[Done], frozen=True, tag="leave-step"):
    """The client has the end of a step and all that it printed; or it is gone.

    A step that is over is forgotten; the input of any other ends, and a terminal is hung up.
    """

    step: AttemptId

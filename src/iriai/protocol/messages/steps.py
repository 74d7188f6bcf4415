"""Messages about job steps, between a job's home and the nodes of its seats (docs/spec/011)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Code, Count, Many, Name, Text, Words
from iriai.model.ids import AttemptId
from iriai.model.job import Grace
from iriai.model.state import EndCause
from iriai.model.submission import Interaction


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to node: start this job step beside its seat, once.

    Answered with `StepBegun`, and with `StepEnded` when it ended, after all that it printed.
    """

    attempt: AttemptId
    """The seat, with the number of the step."""
    rank: Count
    """Of the seat, whose environment the step has."""
    command: Annotated[tuple[Text, ...], Many]
    interaction: Interaction
    takes_input: bool = False
    window: tuple[Count, Count] = (0, 0)
    """Rows and columns of its terminal; 0: the kernel's default."""
    terminal: Name = ""
    """The value of TERM; empty: as the job has it."""
    origin: Name = ""
    """The machine that says it is of the job's user; empty: the home itself."""


class StepBegun(msgspec.Struct, frozen=True):
    """Node to home: the step was started, and its streams are there."""

    attempt: AttemptId
    machine: Name


class StepEnded(msgspec.Struct, frozen=True):
    """Node to home: the step is over, or was not started. Repeated until `ForgetStep`."""

    attempt: AttemptId
    machine: Name
    cause: EndCause
    exit_code: Code | None = None
    signal: Code | None = None
    message: Words = ""


class StopStep(msgspec.Struct, frozen=True):
    """Home to node: end this step; `StepEnded` follows in time."""

    attempt: AttemptId
    grace_s: Grace


class ForgetStep(msgspec.Struct, frozen=True):
    """Home to node: the step's client has its end; the node drops it, with what it printed."""

    attempt: AttemptId


PASSED_BYTES_MAX = 4 << 20
"""Of one request or answer: a command at its longest, or a piece of input or output."""
Passed = Annotated[bytes, msgspec.Meta(max_length=PASSED_BYTES_MAX)]


class StepRequest(msgspec.Struct, frozen=True):
    """Any machine to a home: what a user there asks about job steps of that home.

    Answered with `StepAnswer`. It may be repeated: a second one does no harm.
    """

    number: Count
    """The asker's own; the answer repeats it."""
    user: Name
    request: Passed
    """As the client sent it."""


class StepAnswer(msgspec.Struct, frozen=True):
    """The answer to `StepRequest`, from the machine that was asked alone."""

    number: Count
    answer: Passed


StepToNode = Step | StopStep | ForgetStep
StepToHome = StepBegun | StepEnded

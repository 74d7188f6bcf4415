"""How a submission is connected with who submits it, and what of a parallel task runs."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

import msgspec

from iriai.model.problem import UsageProblem
from iriai.model.state import EndCause

INPUT_BYTES_MAX = 1 << 20
"""Of input that was sent and not written to its task yet; one piece may have as much."""
InputPiece = Annotated[bytes, msgspec.Meta(max_length=INPUT_BYTES_MAX)]


class Interaction(StrEnum):
    """The connection between a task and its waiting client."""

    BATCH = "batch"
    """Output goes to the files that the job names, standard input comes from a stored copy."""
    STREAM = "stream"
    """`run`: standard input comes from the client, standard output and error go to it."""
    TERMINAL = "terminal"
    """`run --pty`: the three standard descriptors are a terminal that the client relays."""


class Layout(StrEnum):
    """What runs of a task with several ranks."""

    RANKS = "ranks"
    """The command, once for each rank."""
    FIRST = "first"
    """The command, once, on the first machine: it starts the rest by job steps."""


class Binding(StrEnum):
    """The processors of a rank."""

    CORES = "cores"
    """Its own."""
    NONE = "none"
    """Those of its seat."""


class NotifyOn(StrEnum):
    """The ends that are notified."""

    END = "end"
    """Every end."""
    FAIL = "fail"
    """Any but `completed`."""

    def concerns(self, cause: EndCause) -> bool:
        """Return whether a job that ended like this is notified."""
        return self is NotifyOn.END or cause is not EndCause.COMPLETED


MAILTO = "mailto:"
LENGTH_MAX = 4096
"""A longer command is a script."""
# What mail programs take without quotes; they never see it as an option.
_ADDRESS = r"[A-Za-z0-9._%+][A-Za-z0-9._%+-]*(@[A-Za-z0-9][A-Za-z0-9.-]*)?"


def check_notify(text: str) -> str:
    """Return `text` if it is a command or an address; empty for none.

    Raises:
        UsageProblem: it is neither.
    """
    if len(text) > LENGTH_MAX or any(ord(letter) < ord(" ") and letter != "\t" for letter in text):
        raise UsageProblem(
            "bad-notify",
            f"the notification is longer than {LENGTH_MAX} characters, or has control characters",
            "write a script, and name it",
        )
    address = address_of(text)
    if address is not None and not re.fullmatch(_ADDRESS, address):
        raise UsageProblem(
            "bad-notify",
            f"'{text}' is not an address",
            "write mailto:ann@example.org, or a command",
        )
    if text and not text.strip():
        raise UsageProblem("bad-notify", "there is no command to run", "write one, or an address")
    return text


def address_of(text: str) -> str | None:
    """Return the address to write to; None if a command is to be run."""
    return text.removeprefix(MAILTO) if text.startswith(MAILTO) else None

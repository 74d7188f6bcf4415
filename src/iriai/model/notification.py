"""What a person wants to be told when a job has finished: a command to run, or an address."""

from __future__ import annotations

import re
from enum import StrEnum

from iriai.model.problem import UsageProblem
from iriai.model.state import EndCause

MAILTO = "mailto:"
LENGTH_MAX = 4096
"""A longer command is a script."""
# What mail programs take without quotes; they never see it as an option.
_ADDRESS = re.compile(r"[A-Za-z0-9._%+][A-Za-z0-9._%+-]*(@[A-Za-z0-9][A-Za-z0-9.-]*)?")


class NotifyOn(StrEnum):
    """Which ends are worth it."""

    END = "end"
    """Every end."""
    FAIL = "fail"
    """Any but `completed`."""

    def concerns(self, cause: EndCause) -> bool:
        """Whether a job that ended like this is told of."""
        return self is NotifyOn.END or cause is not EndCause.COMPLETED


def check_notify(text: str) -> str:
    """`text` itself, where it is a command or an address; empty for none.

    Raises:
        UsageProblem: it is neither.
    """
    if len(text) > LENGTH_MAX or any(ord(letter) < ord(" ") and letter != "\t" for letter in text):
        raise UsageProblem(
            "bad-notify",
            f"what is to be told is longer than {LENGTH_MAX} characters, or has control characters",
            "write a script, and name it",
        )
    address = address_of(text)
    if address is not None and not _ADDRESS.fullmatch(address):
        raise UsageProblem(
            "bad-notify",
            f"'{text}' is not an address",
            "write mailto:ann@example.org, or a command",
        )
    if text and not text.strip():
        raise UsageProblem("bad-notify", "there is no command to run", "write one, or an address")
    return text


def address_of(text: str) -> str | None:
    """Whom to write to; None where a command is to be run."""
    return text.removeprefix(MAILTO) if text.startswith(MAILTO) else None

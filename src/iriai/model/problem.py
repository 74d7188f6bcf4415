"""Errors for a person or a program: what happened, where, and what to do."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command (`run` and `wait` pass on the task's own instead)."""

    DONE = 0
    INTERNAL = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    NOT_ALLOWED = 5
    UNREACHABLE = 6


class Problem(Exception):
    """A request that cannot be carried out; nothing was changed.

    `code` is stable and short (`bad-duration`), for programs; `message` says what was wrong and
    where, `hint` what would be right.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    @property
    def fields(self) -> tuple[int, str, str, str]:
        """Return what crosses a socket: (exit code, code, message, hint)."""
        return self.exit_code, self.code, self.message, self.hint

    def __reduce__(self) -> tuple[type[Problem], tuple[str, str, str]]:
        """Support pickling: the problem keeps its class in another process."""
        return FAMILIES[self.exit_code], (self.code, self.message, self.hint)


class UsageProblem(Problem):
    """The request itself is malformed."""

    exit_code = ExitCode.USAGE


class Refused(Problem):
    """The request is well formed, but a rule refuses it."""

    exit_code = ExitCode.REFUSED


class NotFound(Problem):
    """The object of the request does not exist."""

    exit_code = ExitCode.NOT_FOUND


class NotAllowed(Problem):
    """The user is not permitted to do this."""

    exit_code = ExitCode.NOT_ALLOWED


class Unreachable(Problem):
    """The daemon cannot be reached, or another program answers."""

    exit_code = ExitCode.UNREACHABLE


FAMILIES: dict[ExitCode, type[Problem]] = {
    family.exit_code: family
    for family in (Problem, UsageProblem, Refused, NotFound, NotAllowed, Unreachable)
}
"""The family of each exit code."""


def problem_from(exit_code: int, code: str, message: str, hint: str) -> Problem:
    """Return the problem with these `fields`; its family is `Problem` if ours do not have it."""
    family = next((each for known, each in FAMILIES.items() if known == exit_code), Problem)
    return family(code, message, hint)

"""The error of a policy from a file."""

from __future__ import annotations

from typing import NamedTuple

from iriai.model.problem import Refused


class Mistake(NamedTuple):
    """What is wrong with a decision."""

    what: str
    nearest: str = ""
    """The nearest that would do, for people; empty: nothing is known."""


class PolicyError(Refused):
    """Nothing came of the decision in question; those before it stand."""

    def __init__(self, where: str, what: str, nearest: str = "") -> None:
        """`nearest`: the nearest decision that would do, for people."""
        super().__init__("policy-mistake", f"{where}: {what}", nearest or "correct the policy")

    @property
    def one_line(self) -> str:
        """Return what happened, and what would do."""
        return " ".join(f"{self.message}; {self.hint}".split())

    @staticmethod
    def of(path: str, error: BaseException) -> PolicyError:
        """`error`, which code of the file `path` let out, with that file's line nearest to it."""
        return PolicyError(PolicyError.where(path, error), f"{type(error).__name__}: {error}")

    @staticmethod
    def where(path: str, error: BaseException) -> str:
        """Return the file, with its line that is nearest to where `error` was raised."""
        line = None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == path:
                line = trace.tb_lineno
            trace = trace.tb_next
        return path if line is None else f"{path}, line {line}"

"""The error of a policy from a file."""

from __future__ import annotations

from iriai.model.problem import Refused


class PolicyError(Refused):
    """Nothing came of the decision in question; those before it stand."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__("policy-mistake", f"{where}: {what}", "correct the policy")

    @staticmethod
    def of(path: str, error: BaseException) -> PolicyError:
        """`error`, which code of the file `path` let out, with that file's line nearest to it."""
        line = None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == path:
                line = trace.tb_lineno
            trace = trace.tb_next
        where = path if line is None else f"{path}, line {line}"
        return PolicyError(where, f"{type(error).__name__}: {error}")

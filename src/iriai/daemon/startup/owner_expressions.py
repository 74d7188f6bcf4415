"""Owner's expressions in a machine's configuration: which jobs to accept, which to prefer."""

from __future__ import annotations

from iriai.classad.expression import parse_expression
from iriai.config.reader import BadConfiguration, Configuration
from iriai.model.problem import UsageProblem
from iriai.system.extras import need_extra


def check_expressions(configuration: Configuration) -> None:
    """Raise `BadConfiguration` if an expression of the file is invalid."""
    for key in ("requirements", "rank"):
        text = getattr(configuration.machine, key)
        if text:
            need_extra("classads", f"{configuration.where}: machine.{key}")
            try:
                parse_expression(text, f"{configuration.where}: machine.{key}")
            except UsageProblem as problem:
                raise BadConfiguration(problem.message, problem.hint) from None


def canonical(text: str, place: str) -> str:
    """Return the canonical text of an expression; raise `UsageProblem` with `place` if it is wrong.

    An empty text stands for no expression, and is returned as it is. Raises `Refused` where the
    extra `classads` is not installed.
    """
    if not text:
        return ""
    need_extra("classads", place)
    return parse_expression(text, place).text

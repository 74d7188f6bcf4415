"""Owner's expressions in a machine's configuration: which jobs to accept, which to prefer."""

from __future__ import annotations

from iriai.classad.expression import parse_expression
from iriai.config.reader import BadConfiguration, Configuration
from iriai.model.problem import UsageProblem


def check_expressions(configuration: Configuration) -> None:
    """Raise `BadConfiguration` if an expression of the file is invalid."""
    for key in ("requirements", "rank"):
        text = getattr(configuration.machine, key)
        if text:
            try:
                parse_expression(text, f"{configuration.where}: machine.{key}")
            except UsageProblem as problem:
                raise BadConfiguration(problem.message, problem.hint) from None


def canonical(text: str, place: str) -> str:
    """Return the canonical text of an expression; raise `UsageProblem` with `place` if it is wrong.

    An empty text stands for no expression, and is returned as it is.
    """
    return parse_expression(text, place).text if text else ""

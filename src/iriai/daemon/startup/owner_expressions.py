"""Owner's expressions in a machine's configuration: which jobs to accept, which to prefer."""

from __future__ import annotations

from iriai.classad.expression import parse_expression
from iriai.config.reader import BadConfiguration, Configuration
from iriai.model.problem import UsageProblem


def check_expressions(configuration: Configuration) -> None:
    """Raise `BadConfiguration` where an expression of the file cannot be understood."""
    for key in ("requirements", "rank"):
        text = getattr(configuration.machine, key)
        if text:
            try:
                parse_expression(text, f"{configuration.where}: machine.{key}")
            except UsageProblem as problem:
                raise BadConfiguration(problem.message, problem.hint) from None


def canonical(text: str) -> str:
    """An expression that was checked, as everybody writes it; empty: there is none."""
    return parse_expression(text, "the policy").text if text else ""

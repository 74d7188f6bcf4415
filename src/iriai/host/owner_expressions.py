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

"""Owner's expressions in a machine's file: which jobs to accept, and when they give way."""

from __future__ import annotations

from collections.abc import Iterator

from iriai.classad.expression import parse_expression
from iriai.classad.syntax_tree import Attribute
from iriai.config.reader import BadConfiguration, Configuration
from iriai.model.problem import UsageProblem
from iriai.system.extras import need_extra

STEPS = {
    "suspend": "suspend",
    "resume": "continue",
    "reclaim": "reclaim",
    "vacate": "vacate",
    "discard": "discard",
}
"""Fields of `[owner]` that may be expressions, and their keys."""


def check_expressions(configuration: Configuration) -> None:
    """Raise `BadConfiguration` if an expression of the file is invalid."""
    for key, text in _expressions(configuration):
        place = f"{configuration.where}: {key}"
        is_step = key.startswith("owner.")
        need_extra("classads", place)
        try:
            expression = parse_expression(text, place)
        except UsageProblem as problem:
            if is_step and " " not in text:
                raise _no_step(place, text) from None
            raise BadConfiguration(problem.message, problem.hint) from None
        if is_step and isinstance(expression.node, Attribute):
            raise _no_step(place, text)
    owner = configuration.owner
    if isinstance(owner.resume, str) and not isinstance(owner.suspend, str):
        raise BadConfiguration(
            f"{configuration.where}: owner.continue is an expression, and owner.suspend is none",
            "write both as expressions, or continue as a delay after the last sign",
        )


def _no_step(place: str, text: str) -> BadConfiguration:
    """Return what is said of one word that is most often a delay with a mistake."""
    return BadConfiguration(
        f"{place}: {text!r} is neither a delay nor a condition",
        "write 'never', a delay as '10min', or a condition as 'KeyboardIdle < 60'",
    )


def _expressions(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Return the keys that have expressions, and these."""
    machine, owner = configuration.machine, configuration.owner
    yield from (
        (f"machine.{key}", text)
        for key, text in (("requirements", machine.requirements), ("rank", machine.rank))
        if text
    )
    for field, key in STEPS.items():
        step = getattr(owner, field)
        if isinstance(step, str):
            yield f"owner.{key}", step

"""Whether expressions can be evaluated in this installation: that takes the extra `classads`."""

from __future__ import annotations

from functools import cache

from iriai.classad.expression import parse_expression
from iriai.system.extras import need_extra


@cache
def why_unusable(*, on_many: bool = False) -> str:
    """Return why no expression can be evaluated here; empty if each can. Loads the library.

    `on_many`: on the ads of many machines, as brokers do, which takes NumPy as well.
    """
    try:
        import iriai.classad.reference_evaluator  # loaded to see whether it is there

        if on_many:
            import iriai.classad.query  # noqa: F401
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'iriai[classads]'"
    return ""


def canonical(text: str, place: str) -> str:
    """Return the canonical text of an expression; raise `UsageProblem` with `place` if it is wrong.

    An empty text stands for no expression, and is returned as it is. Raises `Refused` where the
    extra `classads` is not installed.
    """
    if not text:
        return ""
    need_extra("classads", place)
    return parse_expression(text, place).text

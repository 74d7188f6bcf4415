"""Whether expressions can be evaluated in this installation: that takes the extra `classads`."""

from __future__ import annotations

from functools import cache


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

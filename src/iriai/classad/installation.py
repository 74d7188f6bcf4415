"""Whether expressions can be evaluated in this installation: that takes the extra `classads`."""

from __future__ import annotations

from functools import cache


@cache
def why_unusable() -> str:
    """Return why no expression can be evaluated here; empty if each can. Loads the libraries."""
    try:
        import iriai.classad.query
        import iriai.classad.reference_evaluator  # noqa: F401 - loaded to see whether it is there
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'iriai[classads]'"
    return ""

"""Optional parts of iriai (extras of the distribution), and their absence."""

from __future__ import annotations

from importlib.util import find_spec

from iriai.model.problem import Refused

EXTRAS = {
    "classads": ("classad2", "numpy"),
    "plots": ("matplotlib",),
    "owner": ("jeepney", "xcffib"),
    "top": ("textual",),
}
"""The modules that each extra brings; pyproject.toml names their distributions."""


def need_extra(extra: str, what: str) -> None:
    """Check that an extra is installed, without loading it; `what` needs it, for the message.

    Raises:
        Refused: it is not; the hint is the command that installs it.
    """
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise Refused(
                "extra-missing",
                f"{what} needs {module}, which is not installed",
                f"pip install 'iriai[{extra}]'",
            )

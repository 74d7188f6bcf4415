"""The codes of all problems, each with its exit code, as the source's syntax trees say.

A code that is put together shows as a pattern (`too-many-*`). One that is passed on from another
problem (`problem.code`) is counted where that one is raised.
"""

from __future__ import annotations

from scripts.documentation.problem_codes import raised_problems
from tests.architecture.source import Module, product_modules
from tests.golden.cli.golden_file import FOLDER

CODES = FOLDER / "codes.txt"


def codes_text(modules: list[Module] | None = None) -> str:
    """One line for each code and exit code there is, sorted; what cannot be read is no code."""
    trees = ((module.name, module.tree) for module in modules or product_modules())
    found = {(each.code, each.exit_code) for each in raised_problems(trees)}
    return "".join(f"{code} {exit_code}\n" for code, exit_code in sorted(found))

"""reference/errors.md: every code of a problem, with its exit code, message and hint."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from iriai.model.problem import FAMILIES, ExitCode

from .problem_codes import RaisedProblem, raised_problems

SOURCE = Path(__file__).resolve().parents[2] / "src"
WORDINGS_SHOWN_MAX = 3
"""Of one code; where a code is raised in many places the first few say what it is about."""
_HEAD = """\
# Error codes

Made from the source. Each problem has a **code**, which stays the same from release to release and
is what `--json` prints as `error.code`; an [exit code](../guide/exit-codes.md), which says of which
kind it is; a message that says what happened and why; and a hint that says what to do. `…` stands
for what is known only when it occurs; `*` in a code for a word that is filled in.
"""


def error_reference() -> str:
    """The page."""
    by_code: dict[tuple[str, int], list[RaisedProblem]] = {}
    for each in sorted(raised_problems(_trees())):
        by_code.setdefault((each.code, each.exit_code), []).append(each)
    parts = [_HEAD]
    for exit_code in ExitCode:
        found = {code: each for (code, number), each in by_code.items() if number == exit_code}
        if found:
            about = (FAMILIES[exit_code].__doc__ or "").splitlines()[0]
            about = (
                "An error of iriai or of the system." if exit_code is ExitCode.INTERNAL else about
            )
            parts += [f"## Exit code {int(exit_code)}", about, _table(found)]
    return "\n\n".join(parts) + "\n"


def _trees() -> list[tuple[str, ast.Module]]:
    return [
        (".".join(path.relative_to(SOURCE).with_suffix("").parts), ast.parse(path.read_bytes()))
        for path in sorted((SOURCE / "iriai").rglob("*.py"))
    ]


def _table(found: dict[str, list[RaisedProblem]]) -> str:
    lines = ["| Code | Message | What to do |", "|---|---|---|"]
    for code, problems in found.items():
        worded = list(dict.fromkeys((each.message, each.hint) for each in problems if each.message))
        shown = worded[:WORDINGS_SHOWN_MAX] or [("", problems[0].hint)]
        for number, (message, hint) in enumerate(shown):
            lines.append(f"| {'' if number else f'`{code}`'} | {_cell(message)} | {_cell(hint)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    for each in "\\|<*_`$[":
        text = text.replace(each, f"\\{each}")
    return re.sub("…(?: ?…)+", "…", " ".join(text.split()))

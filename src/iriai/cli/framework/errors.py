"""A problem, told to people in one line or to programs as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from iriai.model.plain_text import printable
from iriai.model.problem import Problem


def complain(problem: Problem, *, as_json: bool) -> None:
    """Say what was wrong: one line on standard error, or one document on standard output."""
    if as_json:
        from iriai.cli.framework.json_output import print_document

        error = {"code": problem.code, "message": problem.message, "hint": problem.hint}
        print_document({"error": error})
        return
    print(f"iriai: {printable(str(problem))}", file=sys.stderr)


def remark(text: str) -> None:
    """Say something beside the result, on standard error."""
    print(f"iriai: {printable(text)}", file=sys.stderr)


def remarks(texts: Iterable[str]) -> None:
    """Say each of `texts` as `remark` does."""
    for text in texts:
        remark(text)

"""The lexer of expressions: tokens with their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from iriai.model.problem import UsageProblem


class Lexeme(NamedTuple):
    """One word."""

    kind: str
    """`number`, `text`, `name`, `operator`, or `end` behind the last one."""
    text: str
    position: int
    """From 0, in characters."""


_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<operator>=\?=|=!=|>>>|==|!=|<=|>=|&&|\|\||<<|>>|\?:|[<>+\-*/%!~&|^?:(),.{}])
    """,
    re.VERBOSE,
)
_MISTAKES = {
    '"': ("a text that is not closed", 'close it with "; inside, write \\" for a quotation mark'),
    "'": ("a name in quotes", 'a text stands in double quotes, as "X86_64"'),
    "=": ("=", "write == to compare, or =?= for exactly the same"),
    "[": (
        "[, which begins a record or a subscript",
        "expressions have no records; lists are written {a, b} and asked with member()",
    ),
}
"""By the sign that no token begins with: what it is, and what to write instead."""


def syntax_problem(text: str, position: int, what: str, hint: str) -> UsageProblem:
    """A mistake at a place, which is shown."""
    start = max(0, position - 20)
    shown = text[start : position + 20]
    place = f"at character {position + 1}"
    if position >= len(text):
        place = "at its end"
    near = f", near '{shown.strip()}'" if shown.strip() else ""
    return UsageProblem("bad-expression", f"{what} {place}{near}", hint)


def tokens(text: str) -> Iterator[Lexeme]:
    """The words of `text`, and one `end`.

    Raises:
        UsageProblem: something that is no word, with its place.
    """
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            sign = text[position]
            hint = "write names, numbers, texts in double quotes and operators"
            what, hint = _MISTAKES.get(sign, (f"'{sign}', which has no meaning here", hint))
            raise syntax_problem(text, position, what, hint)
        kind = found.lastgroup
        assert kind is not None
        if kind != "space":
            yield Lexeme(kind, found.group(), position)
        position = found.end()
    yield Lexeme("end", "", position)

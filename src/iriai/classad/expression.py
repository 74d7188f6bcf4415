"""A parsed expression: its canonical text, its tree, and its clauses."""

from __future__ import annotations

from dataclasses import dataclass

from iriai.classad.parser import parse
from iriai.classad.syntax_tree import Attribute, Chain, Node, attributes, children
from iriai.classad.unparse import text_of
from iriai.model.problem import UsageProblem

EXPRESSION_BYTES_MAX = 16_384
"""Limit of an expression: requirements need much less; a generated list of ten thousand names
belongs into an attribute of the machines."""

LEVELS_MAX = 300
"""HTCondor's library refuses expressions of more than 400 levels, and counts each `&&` of a chain
as one level. So this limits the length of a chain."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; equal if the texts are."""

    text: str
    """The canonical text: the same for expressions that differ only in spaces and superfluous
    parentheses."""
    node: Node

    def clauses(self) -> tuple[Expression, ...]:
        """The clauses: the operands of an `&&` at the top, else the whole."""
        node = self.node
        if isinstance(node, Chain) and node.operator == "&&":
            return tuple(Expression(text_of(part), part) for part in node.parts)
        return (self,)

    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes that it mentions, each once, in their order."""
        return tuple(dict.fromkeys(attributes(self.node)))


def parse_expression(text: str, where: str, *, patterns: bool = False) -> Expression:
    """Return the expression `text`; `where` names it in messages.

    Raises:
        UsageProblem: it is invalid, or over a limit: what, where, and what is right.
    """
    if len(text.encode()) > EXPRESSION_BYTES_MAX:
        raise UsageProblem(
            "bad-expression",
            f"{where}: the expression has {len(text.encode())} bytes; the limit is "
            f"{EXPRESSION_BYTES_MAX}",
            "give the machines an attribute, [machine.attributes], and ask for that",
        )
    try:
        node = parse(text, patterns=patterns)
    except UsageProblem as problem:
        raise UsageProblem(problem.code, f"{where}: {problem.message}", problem.hint) from None
    if _levels(node) > LEVELS_MAX:
        raise UsageProblem(
            "bad-expression",
            f"{where}: more than {LEVELS_MAX} operators are nested",
            "ask for one of many with member(Machine, {...}), or give the machines an attribute",
        )
    return Expression(text_of(node), node)


def _levels(node: Node) -> int:
    """Return the levels as HTCondor's library counts them, with every operand in parentheses."""
    below = [_levels(child) for child in children(node)]
    if isinstance(node, Chain):
        last = len(below) - 1
        return 1 + max(levels + last - max(at - 1, 0) for at, levels in enumerate(below))
    return 2 + max(below, default=0)

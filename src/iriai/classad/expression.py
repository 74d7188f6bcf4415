"""A parsed expression: its canonical text, its tree, and its clauses."""

from __future__ import annotations

from dataclasses import dataclass

from iriai.classad.parser import parse
from iriai.classad.syntax_tree import Attribute, Chain, Node, attributes, children
from iriai.classad.unparse import text_of
from iriai.model.problem import UsageProblem

EXPRESSION_BYTES_MAX = 16_384
"""What is said of a machine can be said in much less; a machine-made list of ten thousand names
belongs into an attribute of the machines."""

LEVELS_MAX = 300
"""HTCondor's library gives up on what has more than 400 levels, and counts each `&&` of a chain as
one. So a chain may be about as long as this."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Equal where the texts are."""

    text: str
    """The same for expressions that differ in spaces and needless parentheses only."""
    node: Node

    def clauses(self) -> tuple[Expression, ...]:
        """What must all hold: the parts of an `&&` at the top, else the whole."""
        node = self.node
        if isinstance(node, Chain) and node.operator == "&&":
            return tuple(Expression(text_of(part), part) for part in node.parts)
        return (self,)

    def attributes(self) -> tuple[Attribute, ...]:
        """Which it mentions, each once, in the order in which they stand."""
        return tuple(dict.fromkeys(attributes(self.node)))


def parse_expression(text: str, where: str, *, patterns: bool = False) -> Expression:
    """The expression `text`; `where` names what it is the value of, for messages.

    Raises:
        UsageProblem: it cannot be understood, or is over a limit: what, where, and what is right.
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
    """As HTCondor's library counts them, where every operand stands in parentheses."""
    below = [_levels(child) for child in children(node)]
    if isinstance(node, Chain):
        last = len(below) - 1
        return 1 + max(levels + last - max(at - 1, 0) for at, levels in enumerate(below))
    return 2 + max(below, default=0)

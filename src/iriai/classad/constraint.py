"""A requirement split into the part that is constant and the part that follows load and time."""

from __future__ import annotations

from dataclasses import dataclass

from iriai.classad.expression import Expression, parse_expression
from iriai.classad.parser import joined
from iriai.classad.syntax_tree import Node
from iriai.classad.unparse import text_of
from iriai.classad.volatile_attributes import CHANGING
from iriai.model.problem import UsageProblem


@dataclass(frozen=True, slots=True)
class Constraint:
    """Holds where both halves do; None: always."""

    lasting: Expression | None
    """The clauses that mention nothing which changes by itself."""
    changing: Expression | None
    """The others."""
    keys: frozenset[str]
    """Attributes that it mentions."""
    problem: str = ""
    """Why it cannot be used, and so never holds: an ad of another machine may say anything."""

    def clauses(self) -> tuple[Expression, ...]:
        """What must all hold."""
        halves = (self.lasting, self.changing)
        return tuple(clause for half in halves if half is not None for clause in half.clauses())


ALWAYS = Constraint(None, None, frozenset())


def condition(text: str, *, patterns: bool = False) -> Constraint:
    """The condition that `text` says; empty: always."""
    if not text:
        return ALWAYS
    try:
        expression = parse_expression(text, "requirements", patterns=patterns)
    except UsageProblem as problem:
        return Constraint(None, None, frozenset(), str(problem))
    lasting: list[Expression] = []
    changing: list[Expression] = []
    for clause in expression.clauses():
        changes = any(each.key in CHANGING for each in clause.attributes())
        (changing if changes else lasting).append(clause)
    keys = frozenset(each.key for each in expression.attributes())
    return Constraint(_all_of(lasting), _all_of(changing), keys)


def _all_of(clauses: list[Expression]) -> Expression | None:
    if not clauses:
        return None
    node: Node = clauses[0].node
    for clause in clauses[1:]:
        node = joined("&&", node, clause.node)
    return Expression(text_of(node), node)

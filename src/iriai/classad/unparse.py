"""From tree to text: one canonical text per tree, so equal expressions compare equal."""

from __future__ import annotations

from iriai.classad import syntax_tree as tree
from iriai.classad.parser import LEVEL_OF, LEVELS

_CHOICE, _UNARY, _DEFAULT, _PRIMARY = -1, len(LEVELS), len(LEVELS) + 1, len(LEVELS) + 2
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def literal_text(value: tree.Result) -> str:
    """A value as it is written in an expression."""
    match value:
        case tree.Absent():
            return value.value
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case int():
            return str(value)
        case float():
            text = repr(value)
            return text.replace("e", ".0e") if "e" in text and "." not in text else text


def text_of(node: tree.Node) -> str:
    """The expression as it is shown, kept and sent: with no more parentheses than it needs."""
    return _text(node)[0]


def _text(node: tree.Node) -> tuple[str, int]:
    """The text, and how strongly it holds together."""
    match node:
        case tree.Literal(value):
            return literal_text(value), _PRIMARY
        case tree.Attribute(scope, name):
            return f"{scope}.{name}" if scope else name, _PRIMARY
        case tree.Unary(operator, operand):
            inner = _within(operand, _UNARY)
            gap = " " if inner[0] in "+-" else ""
            return f"{operator}{gap}{inner}", _UNARY
        case tree.Binary(operator, left, right):
            level = LEVEL_OF[operator]
            return f"{_within(left, level)} {operator} {_within(right, level + 1)}", level
        case tree.Chain(operator, parts):
            level = LEVEL_OF[operator]
            return f" {operator} ".join(_within(part, level + 1) for part in parts), level
        case tree.Conditional(condition, then, otherwise):
            first = _within(condition, _CHOICE + 1)
            return f"{first} ? {_within(then, 0)} : {_within(otherwise, 0)}", _CHOICE
        case tree.Default(value, otherwise):
            return f"{_within(value, _DEFAULT)} ?: {_within(otherwise, _PRIMARY)}", _DEFAULT
        case tree.Call(function, arguments):
            return f"{function}({_listed(arguments)})", _PRIMARY
        case tree.Items(items):
            return f"{{{_listed(items)}}}", _PRIMARY


def _listed(nodes: tuple[tree.Node, ...]) -> str:
    return ", ".join(text_of(node) for node in nodes)


def _within(node: tree.Node, level: int) -> str:
    """As an operand of what holds together as strongly as `level`."""
    text, own = _text(node)
    return text if own >= level else f"({text})"

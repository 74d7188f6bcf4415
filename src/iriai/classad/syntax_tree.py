"""The syntax tree of an expression, frozen, and the values of expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import isnan

from iriai.model.ad import Value


class Absent(Enum):
    """The absence of a value."""

    UNDEFINED = "undefined"
    """An attribute that an ad does not have, or what depends on it."""
    ERROR = "error"
    """What makes no sense, as a text that is added to a number."""


UNDEFINED, ERROR = Absent.UNDEFINED, Absent.ERROR
Result = Value | Absent
"""What an expression may come to, where lists are not asked for."""


def holds(result: Result) -> bool:
    """Whether that counts as true: numbers do that are not 0."""
    return isinstance(result, bool | int | float) and bool(result)


def rank(result: Result) -> float:
    """A rank as a number: what is none counts as 0."""
    if not isinstance(result, bool | int | float):
        return 0.0
    return 0.0 if isnan(result) else float(result)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it stands."""

    value: Result


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an ad: with scope MY or TARGET of that one, else of the first that has it."""

    scope: str
    name: str

    @property
    def key(self) -> str:
        """Names mean the same in small and in capital letters."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Unary:
    """`! - + ~` and what follows."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands, of all operators but those below."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Chain:
    """`a && b && c`, or the same with `||`: at least two parts, none of them such a chain."""

    operator: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Default:
    """`value ?: otherwise`: the second where the first is undefined."""

    value: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the language."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """`{a, b}`: a list."""

    items: tuple[Node, ...]


Node = Literal | Attribute | Unary | Binary | Chain | Conditional | Default | Call | Items


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below."""
    match node:
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case Chain(_, parts) | Call(_, parts) | Items(parts):
            return parts
        case Conditional(condition, then, otherwise):
            return condition, then, otherwise
        case Default(value, otherwise):
            return value, otherwise
        case _:
            return ()


def attributes(node: Node) -> Iterator[Attribute]:
    """All attributes that an expression mentions, as often as it does."""
    if isinstance(node, Attribute):
        yield node
    for child in children(node):
        yield from attributes(child)

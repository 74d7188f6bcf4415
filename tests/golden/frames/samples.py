"""One value of any message type, made from the type alone: the same on every machine and Python.

What a field is filled with follows from where it stands within its own struct, so that a field that
is appended changes no other, and none is what its default is. Of a choice the same one is always
taken: a struct before a text, a text before a number, nothing only where there is nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from iriai.model.ranks import RankShape

DEPTH_MAX = 6
"""Deeper, where types hold themselves, collections are empty."""

_RANKS: tuple[type[inspect.Type], ...] = (
    inspect.StructType,
    inspect.NamedTupleType,
    inspect.DictType,
    inspect.TupleType,
    inspect.CollectionType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.StrType,
    inspect.BytesType,
    inspect.FloatType,
    inspect.IntType,
    inspect.BoolType,
    inspect.NoneType,
)
"""Of a choice between types the first is taken."""


@cache
def described(kind: Any) -> inspect.Type:
    """What msgspec knows of a type."""
    return inspect.type_info(kind)


def full(kind: Any) -> Any:
    """A value with every field filled, out of dicts, lists, numbers, texts and bytes."""
    return _value(described(kind), 0, msgspec.NODEFAULT, 0)


def least(kind: Any) -> Any:
    """A value with the required fields only, and these as empty as they may be."""
    return _least(described(kind), 0)


def value_of(kind: Any, shape: str = "full") -> Any:
    """A message of a type: `full`, or `least` with its required fields only."""
    tree = full(kind) if shape == "full" else least(kind)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(tree), type=kind)


def bare(node: inspect.Type) -> tuple[inspect.Type, inspect.Metadata | None]:
    """A type without what is only said of it."""
    extra = None
    while isinstance(node, inspect.Metadata):
        extra, node = node, node.type
    return node, extra


def alternatives(node: inspect.UnionType) -> list[inspect.Type]:
    """Of a choice, in an order that does not depend on how it was written."""
    return sorted((bare(each)[0] for each in node.types), key=_rank)


def _rank(node: inspect.Type) -> tuple[int, str]:
    number = next(number for number, each in enumerate(_RANKS) if isinstance(node, each))
    return number, str(getattr(node, "tag", ""))


def _value(node: inspect.Type, place: int, default: Any, depth: int) -> Any:
    node, _ = bare(node)
    match node:
        case inspect.UnionType():
            return _value(alternatives(node)[0], place, default, depth)
        case inspect.StructType():
            return _struct(
                node,
                [
                    (each.encode_name, _value(each.type, number, each.default, depth + 1))
                    for number, each in enumerate(node.fields)
                ],
            )
        case inspect.NamedTupleType(cls=cls) if cls is RankShape:
            return [19, 20, 4, 5]  # numbers that do not contradict each other
        case inspect.NamedTupleType():
            return [
                _value(each.type, number, msgspec.NODEFAULT, depth + 1)
                for number, each in enumerate(node.fields)
            ]
        case inspect.TupleType():
            return [
                _value(each, number, msgspec.NODEFAULT, depth + 1)
                for number, each in enumerate(node.item_types)
            ]
        case inspect.DictType():
            key = _value(node.key_type, place, msgspec.NODEFAULT, depth + 1)
            return {key: _value(node.value_type, place, msgspec.NODEFAULT, depth + 1)}
        case inspect.CollectionType():
            if depth > DEPTH_MAX:
                return []
            count = max(1, node.min_length or 0)
            return [_value(node.item_type, place, msgspec.NODEFAULT, depth + 1)] * count
        case _:
            return _scalar(node, place, default)


def _struct(node: inspect.StructType, fields: list[tuple[str, Any]]) -> Any:
    if node.array_like:
        tag = [] if node.tag is None else [node.tag]
        return [*tag, *(value for _, value in fields)]
    tagged = {} if node.tag is None else {node.tag_field: node.tag}
    return tagged | dict(fields)


def _scalar(node: inspect.Type, place: int, default: Any) -> Any:
    match node:
        case inspect.NoneType():
            return None
        case inspect.BoolType():
            return default is not True
        case inspect.IntType() | inspect.FloatType():
            return _number(node, place, default)
        case inspect.StrType():
            text = f"text-{place}".ljust(node.min_length or 0, "-")
            return text[: node.max_length]
        case inspect.BytesType():
            content = bytes([0xB0 + place % 16]) * max(3, node.min_length or 0)
            return content[: node.max_length]
        case inspect.EnumType():
            return next(each.value for each in node.cls if each != default)
        case inspect.LiteralType():
            return next(each for each in sorted(node.values, key=str) if each != default)
        case inspect.RawType() | inspect.AnyType():
            return place + 2
    raise TypeError(f"no value is made of {node}")


def _number(node: inspect.IntType | inspect.FloatType, place: int, default: Any) -> float:
    step = 1 if isinstance(node, inspect.IntType) else 0.25
    value = place + 2 + (step if isinstance(node, inspect.FloatType) else 0)
    if node.le is not None:
        value = min(value, type(step)(node.le))
    return value if value != default else value - step


def _least(node: inspect.Type, depth: int) -> Any:
    node, _ = bare(node)
    match node:
        case inspect.UnionType():
            kinds = alternatives(node)
            is_free = isinstance(kinds[-1], inspect.NoneType)
            return None if is_free else _least(kinds[0], depth)
        case inspect.StructType():
            return _struct(
                node,
                [
                    (each.encode_name, _least(each.type, depth + 1))
                    for each in node.fields
                    if each.required
                ],
            )
        case inspect.NamedTupleType():
            return [_least(each.type, depth + 1) for each in node.fields if each.required]
        case inspect.TupleType():
            return [_least(each, depth + 1) for each in node.item_types]
        case inspect.DictType():
            return {}
        case inspect.CollectionType():
            return [_least(node.item_type, depth + 1)] * (node.min_length or 0)
        case _:
            return _scalar(node, 0, msgspec.NODEFAULT)

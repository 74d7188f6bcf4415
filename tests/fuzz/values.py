"""Values of message types, as msgpack would carry them: honest ones, and some at their bounds.

Made from the types themselves, so that a new field is fuzzed from the day on which it is there.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from iriai.model.ids import AttemptId, ReservationId
from iriai.sim.world.clock import WALL_S

NAMES = (
    "ume",
    "ume",
    "take",
    "take",
    "kiri",
    "m0",
    "lab",
    "ann",
    "node",
    "home",
    "broker",
    "directory",
    "a",
)
TEXTS = ("", "x", "/tmp", "true", "Memory >= 1024", "name:*", "ok:ume-1", "10.99.0.1:6174", "#")
NUMBERS = (0, 1, 1, 1, 2, 3, 7, 100, 1000, 65_535, 1 << 31, 1 << 40)
FLOATS = (0.0, 0.5, 1.0, 60.0, 3600.0, 1e9)
ITEMS_MAX = 3
DEPTH_MAX = 8
KNOWN = 0.5
"""Of attempts and reservations: one that is there."""
RESERVATIONS = (("ume", 1), ("ume", 2), ("take", 1), ("take", 2))
"""Of the machine that is told things, and of whoever tells them."""
NEAR_S = (0.0, 1.0, 60.0, 120.0, 600.0, 3600.0, 7200.0, 14 * 86_400.0, 31 * 86_400.0, 1e8)
"""Of the wall clock: how far times are from now, where they are near."""


@cache
def described(kind: Any) -> inspect.Type:
    """What msgspec knows of a type."""
    return inspect.type_info(kind)


def value_of(kind: Any, rng: Random) -> Any:
    """One value of `kind`, out of dicts, lists, numbers, texts and bytes."""
    return _value(described(kind), rng, 0)


def _value(node: Any, rng: Random, depth: int) -> Any:
    match node:
        case inspect.UnionType():
            types = node.types
            if depth > DEPTH_MAX:
                types = [each for each in types if isinstance(each, inspect.NoneType)] or types
            return _value(rng.choice(types), rng, depth)
        case inspect.StructType():
            return _struct(node, rng, depth)
        case inspect.Metadata():
            return _value(node.type, rng, depth)
        case inspect.NamedTupleType() if node.cls is AttemptId and rng.random() < KNOWN:
            return ["ume", *rng.choice(((1, 0, 1), (2, 1, 1), (2, 2, 1), (3, 1, 1)))]
        case inspect.NamedTupleType() if node.cls is ReservationId and rng.random() < KNOWN:
            return [*rng.choice(RESERVATIONS)]
        case inspect.NamedTupleType():
            return [_value(each.type, rng, depth + 1) for each in node.fields]
        case inspect.DataclassType() | inspect.TypedDictType():
            return {each.encode_name: _value(each.type, rng, depth + 1) for each in node.fields}
        case inspect.TupleType():
            return [_value(each, rng, depth + 1) for each in node.item_types]
        case inspect.DictType():
            return {
                _value(node.key_type, rng, depth + 1): _value(node.value_type, rng, depth + 1)
                for _ in range(_count(node, rng, depth))
            }
        case inspect.CollectionType():
            return [_value(node.item_type, rng, depth + 1) for _ in range(_count(node, rng, depth))]
        case _:
            return _scalar(node, rng)


def _struct(node: inspect.StructType, rng: Random, depth: int) -> Any:
    fields = [(each.encode_name, _of_field(each, rng, depth + 1)) for each in node.fields]
    if node.array_like:
        tag = [] if node.tag is None else [node.tag]
        return [*tag, *(value for _, value in fields)]
    tagged = {} if node.tag is None else {node.tag_field: node.tag}
    return tagged | dict(fields)


def _of_field(field: inspect.Field, rng: Random, depth: int) -> Any:
    """A value of a field; of a wall clock often a time near now, for others are over or far."""
    if field.name.endswith("_wall_s") and rng.random() < KNOWN:
        return WALL_S + 1000.0 + rng.choice((1.0, 1.0, -1.0)) * rng.choice(NEAR_S)
    return _value(field.type, rng, depth)


def _count(node: Any, rng: Random, depth: int) -> int:
    least, most = node.min_length or 0, ITEMS_MAX if depth < DEPTH_MAX else 0
    if node.max_length is not None:
        most = min(most, node.max_length)
    return max(least, rng.randint(0, most))


def _scalar(node: Any, rng: Random) -> Any:
    match node:
        case inspect.NoneType():
            return None
        case inspect.BoolType():
            return rng.random() < 0.5
        case inspect.IntType():
            return int(_bounded(node, rng, NUMBERS))
        case inspect.FloatType():
            return float(_bounded(node, rng, FLOATS))
        case inspect.StrType():
            return _text(node, rng)
        case inspect.BytesType() | inspect.ByteArrayType() | inspect.MemoryViewType():
            return rng.randbytes(rng.choice((0, 1, 16, 64)))[: node.max_length]
        case inspect.EnumType():
            return rng.choice([each.value for each in node.cls])
        case inspect.LiteralType():
            return rng.choice(node.values)
        case inspect.RawType() | inspect.AnyType():
            return msgspec.Raw(msgspec.msgpack.encode(rng.choice(NUMBERS)))
    raise TypeError(f"no value is made of {node}")


def _bounded(node: Any, rng: Random, usual: tuple[float, ...]) -> float:
    least = node.ge if node.ge is not None else node.gt
    most = node.le if node.le is not None else node.lt
    if rng.random() < 0.1 and (least is not None or most is not None):
        return rng.choice([each for each in (least, most) if each is not None])
    value = rng.choice(usual)
    if least is not None:
        value = max(value, least)
    return value if most is None else min(value, most)


def _text(node: Any, rng: Random) -> str:
    text = rng.choice(NAMES if rng.random() < 0.6 else TEXTS)
    if node.min_length:
        text = text.ljust(node.min_length, "a")
    return text if node.max_length is None else text[: node.max_length]

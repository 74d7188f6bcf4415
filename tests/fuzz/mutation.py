"""Makes hostile input out of honest input: trees by their grammar, bytes and texts as they come."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 31, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63),
    float("nan"), float("inf"), float("-inf"), 1e308, -0.0, 5e-324,
    "", "\0", "a\nb", "\x1b[2J", "../../etc/passwd", "/dev/zero", "[" * 300, "*" * 300, "9" * 5000,
    "ü" * 40, "%s%n", b"", b"\0" * 40, [], {}, [[]], {"": ""},
)  # fmt: skip
"""Values at or beyond what anybody honest says."""
INTEGERS = tuple(each for each in HOSTILE if type(each) is int)
FLOATS = tuple(each for each in HOSTILE if type(each) is float)
LONG = 70_000
"""Of texts, bytes and lists that are too long."""
NESTED = 3_000
"""Levels: more than a stack takes."""
_RAW = (
    b"\xc1",
    b"\xff" * 9,
    b"\x91" * 200,
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\x00\x00\x00\x02\xff\xfe",
)
"""msgpack that is none: a reserved byte, huge announcements, nesting, a text that is not UTF-8."""


def mutated_tree(tree: Any, rng: Random) -> Any:
    """`tree` with one to three of its nodes replaced, dropped, repeated or swapped."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = _at_random(tree, rng)
    return tree


def with_hostile_number(tree: Any, rng: Random) -> Any:
    """`tree` with one of its numbers, wherever it is, replaced by what nobody can count with."""
    if isinstance(tree, list):
        places = [place for place, each in enumerate(tree) if _has_number(each)]
        if places:
            place = rng.choice(places)
            return [*tree[:place], with_hostile_number(tree[place], rng), *tree[place + 1 :]]
    if isinstance(tree, dict):
        names = [name for name, each in tree.items() if _has_number(each)]
        if names:
            name = rng.choice(names)
            return tree | {name: with_hostile_number(tree[name], rng)}
    return rng.choice(FLOATS) if isinstance(tree, float) else rng.choice(INTEGERS)


def _has_number(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(map(_has_number, tree.values()))
    if isinstance(tree, list):
        return any(map(_has_number, tree))
    return isinstance(tree, int | float) and not isinstance(tree, bool)


def _at_random(tree: Any, rng: Random) -> Any:
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        place = rng.randrange(len(tree))
        return _list_changed(tree, place, rng)
    if isinstance(tree, dict) and tree and rng.random() < 0.8:
        key = rng.choice(list(tree))
        choice = rng.random()
        if choice < 0.1:
            return {name: value for name, value in tree.items() if name != key}
        if choice < 0.13:
            return tree | {"unknown": nested()}
        return tree | {key: _at_random(tree[key], rng)}
    return _hostile(tree, rng)


def _list_changed(tree: list[Any], place: int, rng: Random) -> list[Any]:
    before, after = tree[:place], tree[place + 1 :]
    match rng.randrange(10):
        case 0 if rng.random() < 0.2:
            return [*tree, nested()]  # a field that is not known is read over
        case 0:
            return [*before, *after]
        case 1:
            return [*before, tree[place], tree[place], *after]
        case 2:
            return [*before, *(tree[place : place + 1] * rng.choice((50, 2_000))), *after]
        case _:
            return [*before, _at_random(tree[place], rng), *after]


def _hostile(value: Any, rng: Random) -> Any:
    if isinstance(value, bool) or value is None or rng.random() < 0.3:
        return rng.choice(HOSTILE)
    match value:
        case int():
            return rng.choice((value + 1, value - 1, -value, value ^ (1 << rng.randrange(63)))) % (
                1 << 64
            )
        case float():
            return rng.choice((-value, value * 1e300, float("nan"), float("inf"), value + 1e-9))
        case str():
            return rng.choice((value * 50, value + "\0", value + "\n", "x" * LONG, value[:-1]))
        case bytes():
            return rng.choice((value * 50, mutated_bytes(value, rng), b"x" * LONG))
        case list() if rng.random() < 0.02:
            return nested()
    return rng.choice(HOSTILE)


def nested() -> msgspec.Raw:
    """A list in a list in a list."""
    return msgspec.Raw(b"\x91" * NESTED + b"\xc0")


def encoded(tree: Any) -> bytes:
    """As msgpack; what it cannot say becomes text."""
    try:
        return msgspec.msgpack.encode(tree)
    except (OverflowError, TypeError, UnicodeEncodeError):
        return msgspec.msgpack.encode(repr(tree))


def mutated_bytes(content: bytes, rng: Random) -> bytes:
    """`content` with bits flipped, pieces cut, repeated or put in."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if data:
                data[place % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                del data[place : place + rng.choice((1, 4, 64))]
            case 2:
                data[place:place] = data[place : place + rng.choice((1, 8, 64))]
            case 3:
                data[place:place] = rng.choice(_RAW)
            case 4:
                data[place:place] = rng.randbytes(rng.choice((1, 4)))
            case _:
                del data[place:]
    return bytes(data)


def mutated_text(text: str, rng: Random, words: tuple[str, ...]) -> str:
    """`text` with pieces cut, repeated, or words of its language put in."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                text = text[:place] + text[place + rng.choice((1, 3, 20)) :]
            case 1:
                piece = text[place : place + rng.choice((1, 8, 40))]
                text = text[:place] + piece * rng.choice((2, 2, 100)) + text[place:]
            case 2:
                text = text[:place] + rng.choice(words) + text[place:]
            case 3:
                text = text[:place] + rng.choice(words) * rng.choice((2, 30, 1000)) + text[place:]
            case _:
                put_in = chr(rng.choice((0, 9, 10, 27, 34, 92, 0xE9, 0x2028, 0x1F600)))
                text = text[:place] + put_in + text[place:]
    return text[: 4 * LONG]

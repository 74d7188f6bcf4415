"""Lying messages: honest ones with one field altered at random."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from iriai.sim.world.rng import Rng

Value = TypeVar("Value")


def altered(value: Value, rng: Rng) -> Value:
    """Return `value` with one part changed to another value of its type."""
    if isinstance(value, msgspec.Struct):
        names = tuple(name for name in value.__struct_fields__ if name != "kind")
        if not names:
            return value
        name = rng.pick(names)
        return msgspec.structs.replace(value, **{name: altered(getattr(value, name), rng)})
    if isinstance(value, tuple) and value:
        place = rng.below(len(value))
        parts: list[Any] = [*value]
        parts[place] = altered(parts[place], rng)
        if hasattr(value, "_make"):
            return value._make(parts)  # type: ignore[no-any-return]
        if rng.chance(0.2):
            del parts[place]
        return tuple(parts)  # type: ignore[return-value]
    return _altered_scalar(value, rng)


def _altered_scalar(value: Value, rng: Rng) -> Value:
    other: Any = value
    if isinstance(other, bool):
        other = not other
    elif type(other) is int:
        other = rng.pick((other + 1, max(0, other - 1), 0, 2**40))
    elif isinstance(other, float):
        other = rng.pick((0.0, other + 1.0, abs(other) * 1e6 + 1e9))
    elif type(other) is bytes and other:
        other = other[:-1] + bytes([(other[-1] + 1) % 256])
    return other  # type: ignore[no-any-return]

"""Types of messages whose fields have no bounds, as they were on 23e147a."""

from __future__ import annotations

import functools
import operator
import types
import typing
from typing import Annotated, Any, get_args, get_origin

import msgspec


class Unbounded:
    """A decoder of `kind` that looks at types alone."""

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(unbounded(kind))

    def decode(self, content: bytes) -> Any:
        """What `content` holds."""
        return _real(self._decoder.decode(content))


def _real(value: Any) -> Any:
    """A value of the type that `unbounded` was made of; constructors check nothing."""
    if type(value) is tuple:
        return tuple(map(_real, value))
    if isinstance(value, msgspec.Struct):
        kind = type(value).__base__ if type(value).__module__ == __name__ else type(value)
        return kind(**{name: _real(getattr(value, name)) for name in value.__struct_fields__})
    return value


def unbounded(kind: Any) -> Any:
    """A type as `kind` without the bounds of any field; a subclass of it, where it is a struct."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return unbounded(inner[0])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = [_field(each, hints[each.name]) for each in msgspec.structs.fields(kind)]
        return msgspec.defstruct(kind.__name__, fields, bases=(kind,), frozen=True, module=__name__)
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, map(unbounded, inner))
    if origin in (tuple, dict):
        return origin[tuple(each if each is Ellipsis else unbounded(each) for each in inner)]
    return kind


def _field(info: msgspec.structs.FieldInfo, hint: Any) -> Any:
    if info.required:
        return info.name, unbounded(hint)
    if info.default is not msgspec.NODEFAULT:
        return info.name, unbounded(hint), info.default
    return info.name, unbounded(hint), msgspec.field(default_factory=info.default_factory)

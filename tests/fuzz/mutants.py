"""Mendings of what a decoder or core takes in, each taken out; the fuzzer has to find each."""

from __future__ import annotations

import functools
import operator
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec
import pytest

from iriai.broker.claimed_use import ClaimedUse
from iriai.classad import parser
from iriai.model import name_pattern
from iriai.wire import codec, greetings, links, parts
from tests.fuzz import messages, texts
from tests.fuzz.entrance import Entrance, Find

Patch = Callable[[pytest.MonkeyPatch], None]
_TEXTS = texts.entrances()
INPUTS = 60_000
"""Within which a mutant has to be found: less than a minute."""


class Mutant(NamedTuple):
    """One mending taken out, and where that shows."""

    entrance: str
    patch: Patch


def _nested(module: Any) -> Patch:
    """Decoders of a module raise Python's own error for values that are nested too deeply."""

    def decoded(decoder: Any, content: bytes) -> Any:
        try:
            return decoder.decode(content)
        except (UnicodeDecodeError, MemoryError, OverflowError):
            raise msgspec.DecodeError("malformed") from None

    return _of(module, "decoded", decoded)


def _without_bounds(name: str) -> Patch:
    """A message whose fields are of their types, whatever their bounds are."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        decoder = msgspec.msgpack.Decoder(unbounded(parts._decoders[name].type))
        unchecked = types.SimpleNamespace(decode=lambda content: _real(decoder.decode(content)))
        monkeypatch.setitem(parts._decoders, name, unchecked)  # type: ignore[arg-type]

    return patch


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


def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the decoder nor the broker looks at what is counted: either of them holds alone."""
    _without_bounds("Counted")(monkeypatch)
    monkeypatch.setattr(ClaimedUse, "refuses", lambda *_: False)


def _of(module: Any, name: str, value: object) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


IN_PROCESS: dict[str, Mutant] = {
    "T3a: nested values in requests": Mutant("requests", _nested(codec)),
    "T3b: nested values in greetings": Mutant("greetings", _nested(greetings)),
    "T3c: nested values in frames of links": Mutant("link frames", _nested(links)),
    "T3d: nested values in messages of members": Mutant("messages to cores", _nested(parts)),
    "T3a: nested values in messages to the launcher": Mutant(
        "launcher messages", _nested(messages)
    ),
    "T3e: numbers of any length": Mutant("expressions", _of(parser, "INTEGER_DIGITS", 1 << 40)),
    "T3g: use and charges of any size in End": Mutant("messages to cores", _without_bounds("End")),
    "T3h: charges of any kind in Counted": Mutant("messages to cores", _counted),
    "T9b: patterns of any length": Mutant(
        "patterns", _of(name_pattern, "PATTERN_LENGTH_MAX", 1 << 40)
    ),
}
"""By the threat of docs/spec/010 that is back."""


@contextmanager
def mutated(name: str) -> Iterator[Entrance]:
    """The entrance of a mutant, made while its mending is out."""
    mutant = IN_PROCESS[name]
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutant.patch(monkeypatch)
        made = [*messages.entrances(), *_TEXTS]
        found = next(each for each in made if each.name == mutant.entrance)
        yield replace(found, finds=[], fed=0)


def first_find(entrance: Entrance, seed: str, inputs: int = INPUTS) -> Find | None:
    """The first of so many inputs that does what none may; None: all did well.

    What took long is fed again: of many inputs one meets a collection of garbage.
    """
    rng = Random(seed)
    for _ in range(inputs):
        content = entrance.make(rng)
        entrance.feed_one(content)
        if entrance.finds and entrance.finds[-1].what.startswith("it took"):
            entrance.finds.clear()
            entrance.feed_one(content)
        if entrance.finds:
            return entrance.finds[0]
    return None

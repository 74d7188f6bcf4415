"""Keys of a configuration section: parsed, checked and formatted by their types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from iriai.config.values import MEASURED, NONE, SIZE, ValueFormat
from iriai.model.problem import UsageProblem
from iriai.model.units import format_size

MANY = 1_000_000
"""Numbers from here on have their digits in groups of three."""
_WORDS = {int: "a whole number", float: "a number", bool: "true or false"}


class WrongValue(ValueError):
    """The value is not of its type; the message describes a right value, to follow `write`."""


class KeyType(NamedTuple):
    """The type of a value."""

    kind: Any
    """The type for msgspec, with bounds and patterns; without None."""
    may_be_none: bool = False
    """True if the file may give `none`."""
    is_measured: bool = False
    """True if the value is measured on the machine where the file gives none."""

    @classmethod
    def of(cls, annotation: object) -> KeyType:
        """Return the type of a field with this annotation."""
        is_measured = MEASURED in getattr(annotation, "__metadata__", ())
        inner = get_args(annotation)[0] if is_measured else annotation
        if get_origin(inner) not in (Union, UnionType) or NoneType not in get_args(inner):
            return cls(inner)
        (kind,) = (each for each in get_args(inner) if each is not NoneType)
        return cls(kind, not is_measured, is_measured)

    @property
    def table(self) -> type[msgspec.Struct] | None:
        """The class of the section if the type is a section, else None."""
        is_struct = isinstance(self.kind, type) and issubclass(self.kind, msgspec.Struct)
        return self.kind if is_struct else None

    @property
    def entries(self) -> tuple[KeyType, KeyType] | None:
        """The types of keys and values of a table whose keys are names; None for other types."""
        if get_origin(self.kind) is not Mapping:
            return None
        name, value = get_args(self.kind)
        return KeyType.of(name), KeyType.of(value)

    @property
    def expected(self) -> str:
        """The description of a right value, to follow `write`."""
        words = [format_.expected for format_ in self._formats]
        if get_origin(self.kind) is Literal:
            *first, last = (f"'{word}'" for word in get_args(self.kind))
            words = [f"{', '.join(first)} or {last}" if first else last]
        words = words or [_WORDS[getattr(self.kind, "__origin__", self.kind)]]
        for rule in self._rules:
            if isinstance(rule, msgspec.Meta) and rule.le is not None:
                low = "from {.ge:g} to" if rule.gt is None else "above {.gt:g} and at most"
                high = f"{rule.le:,}" if rule.le >= MANY else f"{rule.le:g}"
                words.append(f"{low.format(rule)} {high.removesuffix('.0')}")
        return " ".join(words) + (f", or '{NONE}'" if self.may_be_none else "")

    def read(self, raw: object) -> object:
        """Convert the value `raw` of the file; raise `WrongValue`."""
        if raw == NONE and self.may_be_none:
            return None
        try:
            for format_ in self._formats:
                raw = format_.parse(raw) if isinstance(raw, str) else raw
            value = msgspec.convert(raw, self.kind)
        except (UsageProblem, msgspec.ValidationError):
            raise WrongValue(self.expected) from None
        if not all(format_.check(value) for format_ in self._formats):
            raise WrongValue(self.expected)
        return value

    def show(self, value: object) -> str:
        """Return `value` as text for people."""
        if value is None or value in ("", ()):
            return NONE
        if isinstance(value, tuple):
            return ", ".join(map(str, value))
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int) and SIZE in self._rules:
            return format_size(value)
        return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)

    @property
    def _rules(self) -> tuple[object, ...]:
        return getattr(self.kind, "__metadata__", ())

    @property
    def _formats(self) -> list[ValueFormat]:
        return [rule for rule in self._rules if isinstance(rule, ValueFormat)]


class Key(NamedTuple):
    """A key of a section."""

    field: str
    """The field of the section's class."""
    type: KeyType


@cache
def keys(section: type[msgspec.Struct]) -> Mapping[str, Key]:
    """Return the keys of a section, by their names in the file, in the order of its class."""
    types = get_type_hints(section, include_extras=True)
    names = zip(section.__struct_encode_fields__, section.__struct_fields__, strict=True)
    return {name: Key(field, KeyType.of(types[field])) for name, field in names}

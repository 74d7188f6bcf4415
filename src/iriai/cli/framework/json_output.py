"""Answers as JSON: one document on standard output, with the names of the wire protocol."""

from __future__ import annotations

import re

import msgspec

_CONTROL = re.compile("[\x7f-\x9f]")
"""What JSON need not escape, but terminals obey; those below a space it does."""


def print_document(value: object) -> None:
    """Print `value`, which may hold structures of the wire protocol, and texts of anybody."""
    text = msgspec.json.encode(plain(value)).decode()
    print(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def plain(value: object) -> object:
    """`value` of nothing but what JSON has; structures become objects without their tags."""
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: plain(each) for name, each in fields if each is not msgspec.UNSET}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value

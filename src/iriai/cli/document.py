"""Answers as JSON: one document on standard output, with the names of the wire protocol."""

from __future__ import annotations

import msgspec


def print_document(value: object) -> None:
    """Print `value`, which may hold structures of the wire protocol."""
    print(msgspec.json.encode(plain(value)).decode())


def plain(value: object) -> object:
    """`value` of nothing but what JSON has; structures become objects without their tags."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value

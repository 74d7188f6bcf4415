"""Which types messages are made of, down to the last."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import msgspec
from msgspec import inspect

import iriai
from tests.golden.frames.samples import bare, described

INSIDE = (
    "iriai.sim.",
    "iriai.protocol.messages.effects",
    "iriai.model.home_trust",
    "iriai.model.snapshot",
    "iriai.model.history",
    "iriai.broker.",
    "iriai.host.hardware",
    "iriai.jobs.notices",
    "iriai.launcher.owner.",
    "iriai.launcher.slices.",
    "iriai.session.",
)
"""Modules whose structs stay within one process, or go into a report of an experiment."""
INSIDE_KINDS = (
    "iriai.home.active_task.ActiveTask",
    "iriai.home.active_task.TaskReasons",
    "iriai.node.metering.HeldClaim",
    "iriai.node.suspension.Suspension",
)
"""The same, of modules that have others."""
BY_HAND = ("iriai.config.",)
"""Modules of what people write, as TOML: docs/guide/configuration.md holds that."""


def within(kinds: Iterable[Any]) -> list[inspect.Type]:
    """The types that are met on the way through `kinds`, each once."""
    found: dict[int, inspect.Type] = {}
    known: set[Any] = set()
    for kind in kinds:
        for each in _within(described(kind), known):
            found[id(each)] = each
    return list(found.values())


def _within(node: inspect.Type, known: set[Any]) -> Iterator[inspect.Type]:
    node, _ = bare(node)
    owner = getattr(node, "cls", None)
    if owner is not None:
        if owner in known:
            return
        known.add(owner)
    yield node
    for each in _parts(node):
        yield from _within(each, known)


def _parts(node: inspect.Type) -> Iterator[inspect.Type]:
    match node:
        case inspect.StructType() | inspect.NamedTupleType():
            yield from (each.type for each in node.fields)
        case inspect.UnionType():
            yield from node.types
        case inspect.TupleType():
            yield from node.item_types
        case inspect.DictType():
            yield from (node.key_type, node.value_type)
        case inspect.CollectionType():
            yield node.item_type


def structs() -> set[type[msgspec.Struct]]:
    """All of the product, but those that no other process and no later run reads."""
    found = set()
    for each in pkgutil.walk_packages(iriai.__path__, "iriai."):
        if each.name.startswith((*INSIDE, *BY_HAND)) or each.name.endswith("__main__"):
            continue
        for kind in vars(import_module(each.name)).values():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                found.add(kind)
    return {
        kind
        for kind in found - {msgspec.Struct}
        if not kind.__module__.startswith((*INSIDE, *BY_HAND))
        and f"{kind.__module__}.{kind.__name__}" not in INSIDE_KINDS
    }


def choices(kinds: Iterable[Any]) -> list[list[str]]:
    """The values of each enum and of each literal type, in an order of their own."""
    found = []
    for node in within(kinds):
        if isinstance(node, inspect.EnumType):
            found.append(sorted(str(each.value) for each in node.cls))
        elif isinstance(node, inspect.LiteralType):
            found.append(sorted(map(str, node.values)))
    return sorted(found)

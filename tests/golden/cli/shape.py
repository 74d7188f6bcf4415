"""A JSON document as its keys and types, with those values that are the same on every machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

Shape = str | int | float | dict[str, "Shape"] | list["Shape"] | None
"""Of a value `<int>` or the value itself, of an object its keys, of a list its elements' one."""
TYPES: Mapping[type, str] = {bool: "<bool>", int: "<int>", float: "<float>", str: "<text>"}

IN_LINE_MAX = 4
"""More values of one key stand in lines of their own."""


class Rules(NamedTuple):
    """What is kept of a document besides keys and types."""

    kept: Mapping[str, str]
    """By key the pattern of values that are kept; `true`, `false` and `null` are always."""
    measured: frozenset[str]
    """Keys of what the machine has to say: that they are there is all that is kept."""
    left_out: str
    """Pattern of keys that other machines may not have."""


def shape_text(document: object, rules: Rules) -> str:
    """The document's shape as indented JSON."""
    return json.dumps(_shape([document], "", rules), indent=2, ensure_ascii=False)


def _shape(values: list[object], key: str, rules: Rules) -> Shape:
    """The shape of all values, which stand below `key`."""
    objects = [each for each in values if isinstance(each, dict)]
    lists = [each for each in values if isinstance(each, list)]
    leaves = {str(_leaf(each, key, rules)): each for each in values if not _is_inner(each)}
    shapes: list[Shape] = []
    if objects:
        shapes.append(_shape_of_objects(objects, rules))
    if lists:
        elements = list(chain.from_iterable(lists))
        shapes.append([_shape(elements, key, rules)] if elements else [])
    if len(leaves) > IN_LINE_MAX:
        shapes += sorted(leaves)
    elif len(leaves) > 1:
        shapes.append(" | ".join(sorted(leaves)))
    else:
        shapes += [_leaf(each, key, rules) for each in leaves.values()]
    return shapes[0] if len(shapes) == 1 else {"<one of>": shapes}


def _is_inner(value: object) -> bool:
    return isinstance(value, dict | list)


def _shape_of_objects(objects: list[dict[str, object]], rules: Rules) -> Shape:
    """All keys of the objects; one that only some of them have ends in `?`."""
    found: dict[str, Shape] = {}
    for key in dict.fromkeys(chain.from_iterable(objects)):
        values = [each[key] for each in objects if key in each]
        name = key if len(values) == len(objects) else f"{key}?"
        if key in rules.measured:
            found[name] = "<of the machine>"
        elif not re.fullmatch(rules.left_out, key):
            found[name] = _shape(values, key, rules)
    return found


def _leaf(value: object, key: str, rules: Rules) -> Shape:
    if value is None or isinstance(value, bool):
        return value
    assert isinstance(value, int | float | str), value
    pattern = rules.kept.get(key)
    is_kept = pattern is not None and re.fullmatch(pattern, str(value))
    return value if is_kept else TYPES[type(value)]

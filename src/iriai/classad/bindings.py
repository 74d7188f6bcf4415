"""The attribute values that an expression used, as an explanation for people."""

from __future__ import annotations

from collections.abc import Mapping

from iriai.classad.expression import Expression
from iriai.classad.syntax_tree import UNDEFINED, Attribute
from iriai.classad.unparse import literal_text
from iriai.model.ad import Value

ATTRIBUTES_MAX = 6
"""As many as a person takes in at a glance."""


def values_of(expression: Expression, my: Mapping[str, Value], target: Mapping[str, Value]) -> str:
    """`Memory is 7951, LoadAvg is 0.3`; names of both ads are keys, in small letters."""
    found: dict[str, str] = {}
    for each in expression.attributes():
        value = _value(each, my, target)
        found[each.name] = literal_text(UNDEFINED if value is None else value)
    shown = [f"{name} is {value}" for name, value in list(found.items())[:ATTRIBUTES_MAX]]
    if len(found) > ATTRIBUTES_MAX:
        shown.append("...")
    return ", ".join(shown) or "it is never true"


def _value(each: Attribute, my: Mapping[str, Value], target: Mapping[str, Value]) -> Value | None:
    if each.scope:
        return (my if each.scope == "MY" else target).get(each.key)
    return my[each.key] if each.key in my else target.get(each.key)

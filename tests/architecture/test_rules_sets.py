"""The rule on sets finds iterations whose order differs from run to run."""

from __future__ import annotations

import pytest

from tests.architecture.rules_sets import iterated_sets
from tests.architecture.source import module_from_text


@pytest.mark.parametrize(
    "text",
    [
        "for x in {1, 2}: pass",
        "y = [x for x in {1, 2}]",
        "y = {x: 1 for x in set(z)}",
        "y = list(frozenset(z))",
        "y = tuple({a for a in b})",
        "y = sum(x for x in set(z))",
        "y = next(iter(set(z)))",
        "y = max(set(z), key=size)",
        "y = ','.join(set(z))",
        "y = [*set(z)]",
        "a, b = set(z)",
        "def f():\n    yield from set(z)",
        "waiting = set()\nfor x in waiting: pass",
        "def f(waiting: set[int]):\n    return [x for x in waiting]",
        "def f(waiting: frozenset[str] | None):\n    for x in waiting: pass",
        "def f():\n    waiting: set[int] = make()\n    return list(waiting)",
        "waiting = set()\ndef f():\n    return waiting.pop()",
        "def f(a: set[int], b):\n    return list(a | b)",
        "def f(a, b):\n    for x in a.keys() - b: pass",
        "def f(a, b):\n    for x in a.union(b): pass",
        "class A:\n    seen: set[int]\n    def f(self):\n        for x in self.seen: pass",
        "class A:\n    def f(self):\n        self.seen: set[int] = x\n        list(self.seen)",
        "def seen() -> set[int]: ...\nfor x in seen(): pass",
    ],
)
def test_an_iteration_over_a_set_is_found(text: str):
    assert iterated_sets([module_from_text("iriai.node.core", text)])


def test_a_set_declared_in_another_module_is_known():
    noun = module_from_text("iriai.model.ad", "class Ad:\n    names: frozenset[str]")
    reader = module_from_text("iriai.broker.core", "def f(ad):\n    return [x for x in ad.names]")
    (violation,) = iterated_sets([noun, reader])
    assert str(violation) == "iriai.broker.core:2: iterates over a set: ad.names"


@pytest.mark.parametrize(
    "text",
    [
        "for x in sorted({1, 2}): pass",
        "for x in sorted(x for x in {1, 2}): pass",
        "y = len({1, 2})",
        "y = 1 in {1, 2}",
        "y = any(x > 1 for x in {1, 2})",
        "y = {x + 1 for x in {1, 2}}",
        "y = frozenset({1}) | {2}",
        "y = {*set(z)}",
        "for x in {1: 2}: pass",
        "for x in (1, 2): pass",
        "for x, y in a.items(): pass",
        "def f(waiting: dict[int, set[int]]):\n    return list(waiting)",
        "def f():\n    waiting = set()\ndef g(waiting: list[int]):\n    return list(waiting)",
        "y = max(a - b, c)",
    ],
)
def test_uses_that_ask_for_no_order_are_let_through(text: str):
    assert iterated_sets([module_from_text("iriai.node.core", text)]) == []


def test_packages_outside_the_cores_may():
    assert iterated_sets([module_from_text("iriai.daemon.main", "for x in {1}: pass")]) == []

"""Every rule, applied to the repository as it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable

import pytest

from iriai.system.extras import EXTRAS
from tests.architecture import (
    rules_composition,
    rules_form,
    rules_hooks,
    rules_imports,
    rules_messages,
    rules_paths,
    rules_purity,
    rules_sets,
)
from tests.architecture.source import ROOT, Module, Violation, all_modules, product_modules

Rule = Callable[[Iterable[Module]], list[Violation]]

PRODUCT_RULES: list[Rule] = [
    rules_imports.forbidden_imports,
    rules_imports.misplaced_libraries,
    rules_form.crowded_folders,
    rules_form.shared_class_names,
    rules_purity.impurities,
    rules_sets.iterated_sets,
    rules_paths.paths_of_users,
    rules_composition.scattered_construction,
    rules_composition.handlers_of_the_simulator,
    rules_hooks.late_hooks,
    rules_messages.unbounded_messages,
    rules_messages.uncontained_decoding,
    rules_messages.asserted_input,
    rules_messages.implicit_tags,
]
REPOSITORY_RULES: list[Rule] = [
    rules_form.long_files,
    rules_form.long_functions,
    rules_form.placeless_modules,
]


def complaint(violations: list[Violation]) -> str:
    return "\n".join(["", *map(str, violations)])


IMPORTED_AS = {"htcondor": "classad2", "python-dateutil": "dateutil"}
"""Libraries whose modules are not named like them."""


@pytest.mark.parametrize("rule", PRODUCT_RULES, ids=lambda rule: rule.__name__)
def test_the_product_keeps_the_rule(rule: Rule):
    violations = rule(product_modules())
    assert not violations, complaint(violations)


@pytest.mark.parametrize("rule", REPOSITORY_RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps_the_rule(rule: Rule):
    violations = rule(all_modules())
    assert not violations, complaint(violations)


def test_the_rules_see_the_product():
    names = {module.name for module in product_modules()}
    assert {"iriai", "iriai.model", "iriai.model.ids"} <= names


def test_every_library_of_the_product_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = list(project["dependencies"])
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    declared = {re.split(r"[<>=~!\[ ;]", each, maxsplit=1)[0].lower() for each in requirements}
    declared |= {module for name, module in IMPORTED_AS.items() if name in declared}
    violations = rules_imports.undeclared_libraries(product_modules(), declared)
    assert not violations, complaint(violations)


def test_every_package_of_the_product_is_in_the_table():
    packages = {module.package for module in product_modules()} - {"", "__main__"}
    assert packages <= rules_imports.TABLE.keys()


def test_the_table_has_no_circle():
    """A package may import what stands below it, so the table itself must have a bottom."""
    below = {
        name: {each.split(".")[0] for each in row} for name, row in rules_imports.TABLE.items()
    }
    settled: set[str] = set()
    while ready := {name for name in below.keys() - settled if below[name] <= settled}:
        settled |= ready
    assert settled == set(below)

"""The glossary: one row for each word, and no name in the source with a word that it replaces."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT

SOURCE = ROOT / "src" / "iriai"
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
TERMS, REPLACED = (
    [term for term in ROW.findall(part) if term not in ("word", "instead of", "---")]
    for part in (ROOT / "docs" / "glossary.md")
    .read_text(encoding="utf-8")
    .split("## Words that names do not use")
)


def names(tree: ast.Module, module: str) -> Iterator[str]:
    """The module, its classes, and their methods and its functions."""
    yield module
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def words(name: str) -> set[str]:
    """The words of a name in either spelling, in the singular as well."""
    found = {each.lower() for each in re.findall(r"[A-Z]?[a-z]+", name)}
    return found | {each.removesuffix("s") for each in found}


def replaced_in(tree: ast.Module, module: str) -> list[str]:
    return [f"{module}: {name}" for name in names(tree, module) if words(name) & set(REPLACED)]


def test_each_word_has_one_row():
    assert [term for term, rows in Counter(TERMS + REPLACED).items() if rows > 1] == []


def test_no_name_has_a_word_that_another_replaces():
    found = [
        line
        for path in sorted(SOURCE.rglob("*.py"))
        for line in replaced_in(ast.parse(path.read_text(encoding="utf-8")), Path(path).stem)
    ]
    assert found == []


def test_a_replaced_word_is_found_in_either_spelling():
    tree = ast.parse("class ParkedCar:\n    def neighbours(self): ...\nclass Doorway: ...")
    assert replaced_in(tree, "abroad") == [
        "abroad: abroad",
        "abroad: Doorway",
        "abroad: neighbours",
    ]

"""Python files as syntax trees with their module names, read from disk or given as text.

The rules of the house are functions from such trees to what breaks them: rules_*.py hold them,
test_repository.py applies them to what is there, and the other tests show with a small bad source
for each that it can fail.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = "iriai"


@dataclass(frozen=True)
class Module:
    """One Python file: its dotted name, its text and its tree."""

    name: str
    text: str
    tree: ast.Module
    is_package: bool = False

    @property
    def package(self) -> str:
        """The part of iriai it belongs to: `node` for iriai.node.core, "" for iriai itself."""
        words = self.name.split(".")
        return words[1] if len(words) > 1 else ""

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree: many rules look at each."""
        return tuple(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@dataclass(frozen=True)
class Violation:
    """One place that breaks a rule."""

    module: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.what}"


def module_from_text(name: str, text: str, *, is_package: bool = False) -> Module:
    """Make a module of a piece of source, which may be indented as a whole."""
    text = textwrap.dedent(text)
    return Module(name, text, ast.parse(text), is_package)


@cache
def module_from_file(path: Path, base: Path) -> Module:
    """Read one file, once; its name follows from where it lies below `base`."""
    words = list(path.relative_to(base).with_suffix("").parts)
    is_package = words[-1] == "__init__"
    name = ".".join(words[:-1] if is_package else words)
    return module_from_text(name, path.read_text(encoding="utf-8"), is_package=is_package)


def product_modules() -> list[Module]:
    """Return every module of iriai."""
    base = ROOT / "src"
    return [module_from_file(path, base) for path in sorted((base / PRODUCT).rglob("*.py"))]


def all_modules() -> list[Module]:
    """Return every Python file of the repository, product or not."""
    others = [
        module_from_file(path, ROOT)
        for folder in ("tests", "benchmarks", "examples", "scripts")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    return product_modules() + others


def terminal_name(node: ast.AST) -> str:
    """Return the last name of an expression: `waiting` for self.waiting, "" where there is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""

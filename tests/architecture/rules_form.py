"""Sizes of folders, files and functions, and names of modules and classes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.architecture.source import Module, Violation

FILE_LINES_MAX = 600
"""A file longer than this holds more than one noun; the aim is 200."""
FOLDER_FILES_MAX = 17
"""A folder with more is a drawer; the nouns of `model` are the one exception."""
FUNCTION_LINES_MAX = 70
"""A function longer than this no longer fits on a screen; the aim is 30."""
NOUNS = frozenset({"iriai.model"})
# Names for files that gather what has no place of its own.
PLACELESS_NAMES = frozenset({"util", "utils", "helper", "helpers", "misc", "common", "stuff"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(module: Module) -> Iterator[Function]:
    for node in module.nodes:
        if isinstance(node, Function):
            yield node


def long_files(modules: Iterable[Module]) -> list[Violation]:
    """Find files over the limit."""
    return [
        Violation(module.name, module.lines, f"{module.lines} lines, at most {FILE_LINES_MAX}")
        for module in modules
        if module.lines > FILE_LINES_MAX
    ]


def function_lines(function: Function) -> int:
    """Return the length of a function from `def` to its last line."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def long_functions(modules: Iterable[Module]) -> list[Violation]:
    """Find functions over the limit."""
    return [
        Violation(
            module.name,
            function.lineno,
            f"{function.name} has {function_lines(function)} lines, at most {FUNCTION_LINES_MAX}",
        )
        for module in modules
        for function in _functions(module)
        if function_lines(function) > FUNCTION_LINES_MAX
    ]


def placeless_modules(modules: Iterable[Module]) -> list[Violation]:
    """Find modules named after nothing in particular."""
    return [
        Violation(module.name, 1, "a module is named after what it holds")
        for module in modules
        if any(PLACELESS_NAMES & set(word.split("_")) for word in module.name.split("."))
    ]


def shared_class_names(modules: Iterable[Module]) -> list[Violation]:
    """Find public classes that another module's class is named like: one word, one thing."""
    homes: dict[str, list[str]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module.name)
    return [
        Violation(home, 1, f"{name} is a class of {', '.join(sorted({*others} - {home}))} as well")
        for name, others in homes.items()
        if len(others) > 1
        for home in others
    ]


def crowded_folders(modules: Iterable[Module]) -> list[Violation]:
    """Find folders with too many files to be read as a list of what the part does."""
    counts = Counter(module.name.rpartition(".")[0] for module in modules if not module.is_package)
    return [
        Violation(folder, 1, f"{count} files, at most {FOLDER_FILES_MAX}")
        for folder, count in counts.items()
        if count > FOLDER_FILES_MAX and folder not in NOUNS
    ]

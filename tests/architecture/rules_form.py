"""Size, names, documentation, annotations and printing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.source import Module, Violation

FILE_LINES_MAX = 600
"""A file longer than this holds more than one noun; the aim is 200."""
FUNCTION_LINES_MAX = 70
"""A function longer than this no longer fits on a screen; the aim is 30."""
DOCUMENTED_SHARE_MIN = 0.95
"""Public functions are contracts; the rest is left for what says all in its name."""
PRINTING_PACKAGES = frozenset({"cli"})
# Names for files that gather what has no place of its own.
PLACELESS_NAMES = frozenset({"util", "utils", "helper", "helpers", "misc", "common", "stuff"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(module: Module) -> Iterator[Function]:
    for node in ast.walk(module.tree):
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


def _prints(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"print", "pprint"}
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.stdout"


def prints(modules: Iterable[Module]) -> list[Violation]:
    """Find prints, and uses of standard output, outside the command line."""
    return [
        Violation(module.name, node.lineno, "prints outside cli")
        for module in modules
        if module.package not in PRINTING_PACKAGES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.expr) and _prints(node)
    ]


def undocumented(modules: Iterable[Module]) -> list[Violation]:
    """Find public functions without a docstring, if more than the permitted share lack one."""
    public = [
        (module, function)
        for module in modules
        for function in _functions(module)
        if not function.name.startswith("_")
    ]
    missing = [(module, each) for module, each in public if not ast.get_docstring(each)]
    if len(missing) <= (1 - DOCUMENTED_SHARE_MIN) * len(public):
        return []
    return [
        Violation(module.name, each.lineno, f"{each.name} has no docstring")
        for module, each in missing
    ]


def unannotated(modules: Iterable[Module]) -> list[Violation]:
    """Find functions with an argument or a result that has no type."""
    found = []
    for module in modules:
        for function in _functions(module):
            given = function.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            every += [each for each in (given.vararg, given.kwarg) if each is not None]
            open_ended = any(
                each.annotation is None and each.arg not in {"self", "cls"} for each in every
            )
            if open_ended or function.returns is None:
                found.append(
                    Violation(module.name, function.lineno, f"{function.name} lacks a type")
                )
    return found


def undescribed_modules(modules: Iterable[Module]) -> list[Violation]:
    """Find modules that do not say what they are for."""
    return [
        Violation(module.name, 1, "no docstring")
        for module in modules
        if module.text.strip() and not ast.get_docstring(module.tree)
    ]

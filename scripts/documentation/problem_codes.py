"""All problems that the source raises: code, exit code, message and hint, from its syntax trees.

Which classes are problems follows from their bases, wherever they stand and whatever they are
called. A code that is put together shows as a pattern (`too-many-*`). One that is passed on from
another problem (`problem.code`) is counted where that one is raised.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeGuard

from iriai.model.problem import ExitCode, Problem

CODE = "code"
"""The parameter of a problem, and of whoever makes one for others, that is its code."""
VARIABLE = "…"
"""Stands in a text for what is known only when the problem occurs."""
PATTERN = "*"
"""The same, in a code."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Kind:
    """A class of problems: how it exits, and which argument is its code."""

    exit_code: int
    place: int | None
    """Of the argument among those without a name; None: it takes none."""
    default: ast.expr | None
    """What the class says where a call does not."""
    texts: tuple[ast.expr | None, ast.expr | None] = (None, None)
    """Message and hint of a class that says these itself."""


class RaisedProblem(NamedTuple):
    """One problem that the source may raise, as far as the source says."""

    code: str
    exit_code: int
    message: str
    """Empty: put together elsewhere."""
    hint: str


class Module:
    """One file of the source: its dotted name and its tree."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.tree = tree

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Where each imported name comes from: module, and its name there."""
        return {
            each.asname or each.name: (node.module, each.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for each in node.names
        }

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Those at the top of the file, by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}


def raised_problems(trees: Iterable[tuple[str, ast.Module]]) -> set[RaisedProblem]:
    """All problems of the modules given by name.

    Raises:
        AssertionError: a code cannot be read from the source.
    """
    source = _Source([Module(name, tree) for name, tree in trees])
    return {each for module in source.modules.values() for each in source.problems_of(module)}


class _Source:
    """All modules, and the classes of problems in them."""

    def __init__(self, modules: list[Module]) -> None:
        self.modules = {module.name: module for module in modules}

    def problems_of(self, module: Module) -> Iterator[RaisedProblem]:
        for function, call in _calls(module.tree, None):
            kind = self._kind(module, _name(call.func))
            if kind is None:
                continue
            code = _argument(call, kind.place) or kind.default
            trees = [module.tree]
            if isinstance(code, ast.Name):  # a constant of another module
                origin = self.modules.get(module.imports.get(code.id, ("", ""))[0])
                trees += [origin.tree] if origin is not None else []
            if function is not None:  # other modules may pass the code to it
                trees += [
                    each.tree
                    for each in self.modules.values()
                    if each.imports.get(function.name) == (module.name, function.name)
                ]
            found = [text for tree in trees for text in _texts(code, function, tree)]
            if not found and not _is_passed_on(code):
                raise AssertionError(f"{module.name}:{call.lineno}: its code cannot be read")
            message, hint = (
                _wording(own or _plain_argument(call, kind, number))
                for number, own in enumerate(kind.texts, 1)
            )
            for text in found:
                yield RaisedProblem(text, kind.exit_code, message, hint)

    def _kind(self, module: Module, name: str) -> Kind | None:
        """What the name means in the module, where it is a class of problems."""
        if name in module.classes:
            return self._kind_of_class(module, module.classes[name])
        place, there = module.imports.get(name, ("", ""))
        return self._kind(self.modules[place], there) if place in self.modules else None

    def _kind_of_class(self, module: Module, node: ast.ClassDef) -> Kind | None:
        if node.name == Problem.__name__ and module.name == Problem.__module__:
            return Kind(ExitCode.INTERNAL, 0, None)
        bases = [_name(base) for base in node.bases]
        base = next(filter(None, (self._kind(module, each) for each in bases)), None)
        if base is None:
            return None
        exit_code, place, default, texts = base.exit_code, base.place, base.default, base.texts
        for each in node.body:
            if isinstance(each, ast.Assign) and _name(each.targets[0]) == "exit_code":
                exit_code = ExitCode[_name(each.value)]
            elif isinstance(each, ast.FunctionDef) and each.name == "__init__":
                place, default = _own_code(each)
                texts = _own_texts(each)
        return Kind(exit_code, place, default, texts)


def _own_code(init: ast.FunctionDef) -> tuple[int | None, ast.expr | None]:
    """Where a class takes its code, and what it is otherwise."""
    names = [each.arg for each in init.args.args]
    if CODE in names:
        place = names.index(CODE)
        given = len(names) - len(init.args.defaults)
        return place - 1, init.args.defaults[place - given] if place >= given else None
    for _, call in _calls(init, None):
        if _name(call.func) == "__init__":
            return None, call.args[0]
    return 0, None


def _own_texts(init: ast.FunctionDef) -> tuple[ast.expr | None, ast.expr | None]:
    """Message and hint that a class gives its base, where it does not pass them on."""
    names = [each.arg for each in init.args.args]
    for _, call in _calls(init, None):
        if _name(call.func) == "__init__":
            given = [*call.args[1:3], None, None][:2]
            own = [None if each is None or _name(each) in names else each for each in given]
            return own[0], own[1]
    return None, None


def _plain_argument(call: ast.Call, kind: Kind, number: int) -> ast.expr | None:
    """Message (1) or hint (2) of a call, counted from the code; a class may take its own code."""
    place = number + (-1 if kind.place is None else kind.place)
    name = ("message", "hint")[number - 1]
    named = (each.value for each in call.keywords if each.arg == name)
    return call.args[place] if place < len(call.args) else next(named, None)


def _wording(text: ast.expr | None) -> str:
    """A text as a person reads it, with `VARIABLE` for what is not constant; empty: unknown."""
    match text:
        case ast.Constant(str(words)):
            return words
        case ast.JoinedStr(parts):
            return "".join(
                part.value
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
                else VARIABLE
                for part in parts
            )
        case ast.BinOp(left, ast.Add(), right):
            return (_wording(left) or VARIABLE) + (_wording(right) or VARIABLE)
        case ast.IfExp():
            return _wording(text.body) or _wording(text.orelse)
    return ""


def _calls(node: ast.AST, function: Function | None) -> Iterator[tuple[Function | None, ast.Call]]:
    """Every call, with the innermost function that it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield function, child
        inner = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _calls(child, inner)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _argument(call: ast.Call, place: int | None) -> ast.expr | None:
    named = (each.value for each in call.keywords if each.arg == CODE)
    if place is not None and place < len(call.args):
        return call.args[place]
    return next(named, None)


def _texts(code: ast.expr | None, function: Function | None, tree: ast.Module) -> Iterator[str]:
    """What the expression can be, as far as this module says."""
    if isinstance(code, ast.Constant) and isinstance(code.value, str):
        yield code.value
    elif isinstance(code, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else PATTERN for part in code.values
        )
    elif isinstance(code, ast.IfExp):
        yield from _texts(code.body, function, tree)
        yield from _texts(code.orelse, function, tree)
    elif isinstance(code, ast.Name):
        if function is not None and _is_parameter(code, function):
            place = [each.arg for each in function.args.args].index(code.id)
            for outer, call in _calls(tree, None):
                if _name(call.func) == function.name:
                    yield from _texts(_argument(call, place), outer, tree)
            return
        inside = list(_assigned(code.id, function)) if function else []
        for value in inside or _assigned(code.id, tree):
            yield from _texts(value, function, tree)


def _is_parameter(code: ast.expr | None, function: Function | None) -> TypeGuard[ast.Name]:
    if not isinstance(code, ast.Name) or function is None:
        return False
    return code.id in [each.arg for each in function.args.args]


def _assigned(name: str, node: ast.AST) -> Iterator[ast.expr]:
    """The values that the name is given somewhere in the node."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                yield from _pairs(name, target, each.value)


def _pairs(name: str, target: ast.expr, value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for inner, part in zip(target.elts, value.elts, strict=True):
            yield from _pairs(name, inner, part)


def _is_passed_on(code: ast.expr | None) -> bool:
    return isinstance(code, ast.Attribute) and code.attr == CODE

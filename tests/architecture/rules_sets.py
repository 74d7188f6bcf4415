"""No pure package iterates over a set: its order differs from run to run.

What is a set is told by literals, calls, operators and methods that make one, and by annotations
(of names within a module, of attributes and results across all pure modules). Uses whose outcome
does not depend on the order (sorted, len, any, all, making another set) are permitted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.architecture.rules_purity import PURE_PACKAGES
from tests.architecture.source import Module, Violation, terminal_name

SET_ANNOTATION = re.compile(
    r"(typing\.|collections\.abc\.)?(set|frozenset|Set|FrozenSet|AbstractSet|MutableSet)(\[.*\])?"
    r"( \| None)?",
    re.DOTALL,
)
SET_MAKERS = frozenset({"set", "frozenset"})
SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
VIEW_METHODS = frozenset({"keys", "items"})
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
ORDERED_CONSUMERS = frozenset(
    {"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "sum", "fsum", "min", "max"}
    | {"dict", "deque", "join", "extend", "fromkeys", "chain", "reduce", "islice", "reversed"}
)
UNORDERED_CONSUMERS = frozenset({"sorted", "any", "all", "set", "frozenset", "len"})


@dataclass
class Knowledge:
    """Names, attributes and functions known to be, or to return, sets."""

    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)


def _is_annotation_of_set(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    text = ast.unparse(annotation)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        text = annotation.value
    return SET_ANNOTATION.fullmatch(text) is not None


def is_set(node: ast.expr, known: Knowledge) -> bool:
    """Whether an expression is a set, as far as its form and the known names tell."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in known.names
        case ast.Attribute(attr=name):
            return name in known.attributes
        case ast.Call(func=ast.Attribute(attr=name)) if name in SET_METHODS:
            return True
        case ast.Call(func=function):
            name = terminal_name(function)
            return name in SET_MAKERS or name in known.functions
        case ast.BinOp(left=left, right=right, op=operator):
            sides = (left, right)
            return isinstance(operator, SET_OPERATORS) and any(
                is_set(side, known) or _is_view(side) for side in sides
            )
        case ast.IfExp(body=body, orelse=other):
            return is_set(body, known) or is_set(other, known)
        case ast.NamedExpr(value=value):
            return is_set(value, known)
    return False


def _is_view(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in VIEW_METHODS
    )


def shared_knowledge(modules: Iterable[Module]) -> Knowledge:
    """Collect attributes and functions that are annotated as sets, and never as something else."""
    sets: Knowledge = Knowledge()
    others: Knowledge = Knowledge()
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.AnnAssign):
                        side = sets if _is_annotation_of_set(each.annotation) else others
                        side.attributes.add(terminal_name(each.target))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                side = sets if _is_annotation_of_set(node.annotation) else others
                side.attributes.add(node.target.attr)
            elif isinstance(node, ast.FunctionDef):
                side = sets if _is_annotation_of_set(node.returns) else others
                side.functions.add(node.name)
    return Knowledge(
        attributes=sets.attributes - others.attributes,
        functions=sets.functions - others.functions,
    )


def _bound_names(scope: ast.AST, known: Knowledge) -> Iterator[str]:
    """Yield the names that a scope binds to sets: annotated, or assigned from a set."""
    for node in _own_nodes(scope):
        if isinstance(node, ast.arg | ast.AnnAssign) and _is_annotation_of_set(node.annotation):
            yield node.arg if isinstance(node, ast.arg) else terminal_name(node.target)
        elif isinstance(node, ast.Assign) and is_set(node.value, known):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.NamedExpr) and is_set(node.value, known):
            yield node.target.id


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Walk a scope in the order of its text, without the functions inside it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _own_nodes(child)


def _iterated(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions whose order this node depends on."""
    match node:
        case ast.For(iter=source):
            yield source
        case ast.ListComp(generators=generators) | ast.DictComp(generators=generators):
            yield from (each.iter for each in generators)
        case ast.GeneratorExp(generators=generators):
            yield from (each.iter for each in generators)
        case ast.Call(func=function, args=arguments) if terminal_name(function) in (
            ORDERED_CONSUMERS
        ):
            yield from arguments
        case ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[]):
            yield owner
        case ast.Starred(value=source):
            yield source
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=source):
            yield source
        case ast.YieldFrom(value=source):
            yield source


def _harmless(scope: ast.AST) -> set[int]:
    """Return the generators and starred parts (by identity) whose consumer asks for no order."""
    harmless: set[int] = set()
    for node in _own_nodes(scope):
        if isinstance(node, ast.Call) and terminal_name(node.func) in UNORDERED_CONSUMERS:
            harmless.update(id(each) for each in node.args)
        if isinstance(node, ast.Set):
            harmless.update(id(each) for each in node.elts)
    return harmless


def _check_scope(
    module: Module, scope: ast.AST, shared: Knowledge, inherited: set[str]
) -> Iterator[Violation]:
    names = set(inherited)
    known = Knowledge(names, shared.attributes, shared.functions)
    names.update(_bound_names(scope, known))
    harmless = _harmless(scope)
    for node in _own_nodes(scope):
        if id(node) not in harmless:
            for source in _iterated(node):
                if is_set(source, known):
                    what = f"iterates over a set: {ast.unparse(source)}"
                    yield Violation(module.name, source.lineno, what)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _check_scope(module, node, shared, names)


def iterated_sets(modules: Iterable[Module]) -> list[Violation]:
    """Find iterations over sets in the pure packages."""
    pure = [module for module in modules if module.package in PURE_PACKAGES]
    shared = shared_knowledge(pure)
    return [
        violation
        for module in pure
        for violation in _check_scope(module, module.tree, shared, set())
    ]

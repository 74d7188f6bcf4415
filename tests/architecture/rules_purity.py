"""Purity of the packages that decide: no clock, no I/O, no thread, no await, no dice of their own.

What a core may import of the standard library is listed rather than what it may not, so that a new
way to reach the outside cannot slip in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.architecture.rules_imports import imports_of
from tests.architecture.source import PRODUCT, Module, Violation, terminal_name

PURE_PACKAGES = frozenset(
    {"model", "config", "classad", "policy", "protocol"}
    | {"node", "home", "broker", "cluster", "jobs", "links", "machine", "wire", "reports"}
)

PERMITTED_MODULES = frozenset(
    {"__future__", "abc", "base64", "bisect", "collections", "contextlib", "copy", "dataclasses"}
    | {
        "datetime",
        "decimal",
        "difflib",
        "email",
        "enum",
        "fnmatch",
        "fractions",
        "functools",
        "graphlib",
    }
    | {
        "graphlib",
        "hashlib",
        "heapq",
        "hmac",
        "ipaddress",
        "itertools",
        "json",
        "math",
        "operator",
        "random",
    }
    | {"re", "shlex", "statistics", "string", "struct", "textwrap", "tomllib", "types", "typing"}
    | {"zlib", "zoneinfo"}
    | {"classad2", "dateutil", "msgspec", "numpy", "typing_extensions", PRODUCT}
)
ASYNC_NODES = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
FORBIDDEN_CALLS = frozenset(
    {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__"}
)
# hash() of a string and id() differ from run to run.
UNREPEATABLE_CALLS = frozenset({"hash", "id"})
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})
CLOCK_OWNERS = frozenset({"datetime", "date"})
# These two give the same numbers in every version of Python; the others do not promise it.
PERMITTED_DRAWS = frozenset({"random", "getrandbits"})


def _imports(module: Module) -> Iterator[Violation]:
    for each in imports_of(module):
        root = each.target.split(".")[0]
        if root not in PERMITTED_MODULES:
            yield Violation(module.name, each.line, f"imports {each.target}")
        if root == "random" and each.target not in {"random", "random.Random"}:
            yield Violation(module.name, each.line, f"imports {each.target}")


def _awaits(node: ast.AST) -> str:
    if isinstance(node, ASYNC_NODES) or (isinstance(node, ast.comprehension) and node.is_async):
        return "async or await"
    return ""


def _forbidden_call(node: ast.AST) -> str:
    """Say what is wrong with a call of a built-in function, by its bare name."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return ""
    name = node.func.id
    if name in FORBIDDEN_CALLS:
        return f"calls {name}()"
    if name in UNREPEATABLE_CALLS:
        return f"{name}() differs from run to run"
    if name == "Random" and not node.args:
        return "Random() without a seed draws one from the system"
    return ""


def _clock(node: ast.AST) -> str:
    """Say what is wrong with an attribute that reads a clock."""
    if isinstance(node, ast.Attribute) and node.attr in CLOCK_METHODS:
        owner = terminal_name(node.value)
        if owner in CLOCK_OWNERS:
            return f"reads the clock: {owner}.{node.attr}"
    return ""


def _is_random(annotation: ast.expr | None) -> bool:
    return annotation is not None and re.search(r"\bRandom\b", ast.unparse(annotation)) is not None


def _random_names(module: Module) -> set[str]:
    """Return the names that hold a random.Random, without leading underscores."""
    names = {"random", "rng"}
    for node in module.nodes:
        match node:
            case ast.arg(arg=name, annotation=annotation) if _is_random(annotation):
                names.add(name.lstrip("_"))
            case ast.AnnAssign(target=target, annotation=annotation) if _is_random(annotation):
                names.add(terminal_name(target).lstrip("_"))
            case ast.Assign(targets=targets, value=ast.Call(func=function)):
                if terminal_name(function) == "Random":
                    names.update(terminal_name(each).lstrip("_") for each in targets)
    return names


def _draws(node: ast.AST, names: set[str], module_imported: bool) -> str:
    """Say what is wrong with a draw: of the module's own generator, or by an unstable method."""
    if not isinstance(node, ast.Attribute):
        return ""
    owner = terminal_name(node.value)
    if module_imported and isinstance(node.value, ast.Name) and owner == "random":
        return "" if node.attr == "Random" else f"module-level random.{node.attr}"
    if owner.lstrip("_") in names and node.attr not in PERMITTED_DRAWS and node.attr.islower():
        return f"draws with {owner}.{node.attr}, permitted are random and getrandbits"
    return ""


def _imports_random(module: Module) -> bool:
    return any(each.target == "random" for each in imports_of(module))


def impurities(modules: Iterable[Module]) -> list[Violation]:
    """Find what ties a pure package to the world outside its arguments."""
    found = []
    for module in modules:
        if module.package not in PURE_PACKAGES:
            continue
        found.extend(_imports(module))
        names, imported = _random_names(module), _imports_random(module)
        for node in module.nodes:
            reasons = (
                _awaits(node),
                _forbidden_call(node),
                _clock(node),
                _draws(node, names, imported),
            )
            # A comprehension node has no line of its own.
            line = getattr(node, "lineno", 0)
            found.extend(Violation(module.name, line, reason) for reason in reasons if reason)
    return found

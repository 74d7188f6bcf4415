"""Who may import whom: the table of docs/architecture.md, and no circles."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from tests.architecture.source import PRODUCT, Module, Violation

CORES = frozenset({"node", "home", "broker"})
EVERYTHING_FOR_DAEMON = frozenset(
    {"model", "classad", "policy", "protocol", "machine", "wire", "launcher", "store", "identity"}
    | {"managers", "plugins", "api", "client"}
    | CORES
)

# What a package may import of ours. "protocol.messages" permits that module alone.
TABLE: Mapping[str, frozenset[str]] = {
    "model": frozenset(),
    "classad": frozenset({"model"}),
    "policy": frozenset({"model", "classad"}),
    "protocol": frozenset({"policy", "model", "classad"}),
    "node": frozenset({"policy", "protocol", "model", "classad"}),
    "home": frozenset({"policy", "protocol", "model", "classad"}),
    "broker": frozenset({"policy", "protocol", "model", "classad"}),
    "machine": CORES | {"policy", "protocol", "model"},
    "wire": frozenset(
        {
            "protocol.messages",
            "protocol.inquiry_messages",
            "protocol.output_messages",
            "protocol.peer_messages",
            "model",
        }
    ),
    "launcher": frozenset({"model"}),
    "store": frozenset({"model"}),
    "identity": frozenset({"model"}),
    "managers": frozenset({"protocol.messages", "model"}),
    "plugins": frozenset({"policy", "model"}),
    "api": frozenset({"wire", "store", "identity", "model"}),
    "client": frozenset({"wire", "model"}),
    "web": frozenset({"client", "model"}),
    "daemon": EVERYTHING_FOR_DAEMON,
    "sim": CORES | {"machine", "policy", "protocol", "plugins", "wire", "classad", "model"},
    "cli": frozenset({"client", "model"}),
}

# Single modules that may import more, and then only inside a function or for types: a command that
# does not need them must not pay for loading them.
INSIDE_FUNCTIONS: Mapping[str, frozenset[str]] = {
    "iriai.cli.up": frozenset({"daemon"}),
    "iriai.cli.down": frozenset({"daemon"}),
    "iriai.cli.backup": frozenset({"daemon"}),
    "iriai.cli.restore": frozenset({"daemon"}),
    "iriai.cli.cluster": frozenset({"daemon", "identity"}),
    "iriai.cli.config_edit": frozenset({"identity"}),
    "iriai.cli.eject": frozenset({"identity"}),
    "iriai.cli.operator": frozenset({"identity"}),
    "iriai.cli.join": frozenset({"daemon", "identity"}),
    "iriai.cli.operating": frozenset({"identity"}),
    "iriai.cli.simulate": frozenset({"sim"}),
    "iriai.cli.simulate_experiment": frozenset({"sim"}),
    "iriai.cli.simulate_faults": frozenset({"sim"}),
}

# A process imports what it uses: libraries that cost memory or start-up time, and the packages
# that may load them. Where a library is not named here anybody may.
LIBRARIES: Mapping[str, frozenset[str]] = {
    "alembic": frozenset({"store"}),
    "cryptography": frozenset({"identity"}),
    "classad2": frozenset({"classad"}),
    "matplotlib": frozenset({"sim", "cli"}),
    "numpy": frozenset({"classad", "policy", "daemon"}),  # daemon: to measure, in another process
    "psutil": frozenset({"daemon", "launcher", "cli"}),
    "rich": frozenset({"cli"}),
    "sqlalchemy": frozenset({"store"}),
    "typer": frozenset({"cli"}),
    "uvloop": frozenset({"daemon"}),
}


@dataclass(frozen=True)
class Import:
    """One import: the full dotted target, where it stands, and whether it runs at load time."""

    target: str
    line: int
    in_function: bool
    for_types_only: bool


def _targets(node: ast.Import | ast.ImportFrom, module: Module) -> list[str]:
    """Return the dotted names an import statement may load, relative ones resolved."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    origin = node.module or ""
    if node.level:
        words = module.name.split(".")
        kept = words[: len(words) - node.level + module.is_package]
        origin = ".".join([*kept, *([node.module] if node.module else [])])
    return [f"{origin}.{alias.name}" for alias in node.names]


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _walk(node: ast.AST, module: Module, inside: bool, typing: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in _targets(child, module):
                yield Import(target, child.lineno, inside, typing)
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        guarded = isinstance(child, ast.If) and _is_type_checking(child.test)
        yield from _walk(child, module, inside or function, typing or guarded)


def imports_of(module: Module) -> list[Import]:
    """Return all imports of a module, wherever they stand in it."""
    return list(_walk(module.tree, module, inside=False, typing=False))


def _permitted(target: str, package: str, allowed: frozenset[str]) -> bool:
    """Whether `target` (a dotted name below iriai) lies in what `package` may import."""
    below = target.removeprefix(f"{PRODUCT}.")
    if target == PRODUCT or below.startswith("__") or below.split(".")[0] == package:
        return True
    return any(below == name or below.startswith(f"{name}.") for name in allowed)


def forbidden_imports(modules: Iterable[Module]) -> list[Violation]:
    """Find imports of ours that the table does not permit, and packages it does not know."""
    found = []
    for module in modules:
        package = module.package
        if package and package not in TABLE and package != "__main__":
            found.append(Violation(module.name, 1, f"package {package} is not in the table"))
            continue
        allowed = TABLE.get(package, frozenset({"cli"} if package == "__main__" else ()))
        inside = INSIDE_FUNCTIONS.get(module.name, frozenset())
        for each in imports_of(module):
            if each.target.split(".")[0] != PRODUCT:
                continue
            more = inside if each.in_function or each.for_types_only else frozenset()
            if not _permitted(each.target, package, allowed | more):
                what = f"{package or PRODUCT} may not import {each.target}"
                found.append(Violation(module.name, each.line, what))
    return found


def misplaced_libraries(modules: Iterable[Module]) -> list[Violation]:
    """Find libraries that are loaded outside the packages that may."""
    found = []
    for module in modules:
        for each in imports_of(module):
            owners = LIBRARIES.get(each.target.split(".")[0])
            if owners is not None and module.package not in owners and not each.for_types_only:
                what = f"{each.target} belongs to {', '.join(sorted(owners))}"
                found.append(Violation(module.name, each.line, what))
    return found


def undeclared_libraries(modules: Iterable[Module], declared: Set[str]) -> list[Violation]:
    """Find libraries that are there by chance: because some other library needs them."""
    known = declared | {PRODUCT} | sys.stdlib_module_names
    return [
        Violation(module.name, each.line, f"{each.target} is not among the dependencies")
        for module in modules
        for each in imports_of(module)
        if each.target.split(".")[0] not in known
    ]


def _circle(graph: Mapping[str, list[str]]) -> list[str]:
    """Return one circle of the graph as a path that ends where it begins, or nothing."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        pending: list[tuple[str, Iterator[str]]] = []
        if start not in done:
            path.append(start)
            pending.append((start, iter(graph[start])))
        while pending:
            name, following = pending[-1]
            after = next((each for each in following if each not in done), None)
            if after is None:
                done.add(name)
                path.pop()
                pending.pop()
            elif after in path:
                return [*path[path.index(after) :], after]
            else:
                path.append(after)
                pending.append((after, iter(graph.get(after, ()))))
    return []


def circular_modules(modules: Iterable[Module]) -> list[Violation]:
    """Find modules that need each other: to load, in a function, or for types alone."""
    named = {module.name: module for module in modules}
    graph: dict[str, list[str]] = {}
    for name, module in named.items():
        graph[name] = []
        for each in imports_of(module):
            target = each.target if each.target in named else each.target.rpartition(".")[0]
            if target in named and target != name:
                graph[name].append(target)
    circle = _circle(graph)
    return [Violation(circle[0], 1, f"circular import: {' -> '.join(circle)}")] if circle else []


def circular_packages(modules: Iterable[Module]) -> list[Violation]:
    """Find packages of ours that import each other, by whatever way."""
    graph: dict[str, list[str]] = {}
    for module in modules:
        following = graph.setdefault(module.package, [])
        for each in imports_of(module):
            words = each.target.split(".")
            if words[0] == PRODUCT and len(words) > 1 and words[1] not in following:
                following.append(words[1])
    for package, following in graph.items():
        graph[package] = [each for each in following if each != package and each in graph]
    circle = _circle(graph)
    return [Violation(circle[0], 1, f"circular import: {' -> '.join(circle)}")] if circle else []

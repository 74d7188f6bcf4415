"""Which package may import which: the table of docs/architecture.md. Folders: pyproject.toml."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache

from tests.architecture.source import PRODUCT, Module, Violation

CORES = frozenset({"node", "home", "broker"})
EVERYTHING_FOR_DAEMON = frozenset(
    {"model", "config", "system", "classad", "policy", "protocol", "cluster", "machine", "links"}
    | {
        "wire",
        "launcher",
        "store",
        "identity",
        "plugins",
        "client",
        "host",
        "state",
        "jobs",
        "reports",
    }
    | {"jobs", "reports"}
    | CORES
)

# What a package may import of ours. "protocol.messages" permits that folder alone.
TABLE: Mapping[str, frozenset[str]] = {
    "model": frozenset(),
    "config": frozenset({"model"}),
    "system": frozenset({"model"}),
    "classad": frozenset({"model", "system.extras"}),
    "policy": frozenset({"model", "config", "classad"}),
    "protocol": frozenset({"policy", "model", "config", "classad"}),
    "node": frozenset({"policy", "protocol", "model", "classad"}),
    "home": frozenset({"protocol", "model"}),
    "broker": frozenset({"policy", "protocol", "model", "config", "classad"}),
    "jobs": frozenset({"home", "wire", "protocol", "policy", "classad", "model", "config"}),
    "cluster": frozenset({"protocol", "policy", "wire", "model", "config", "links"}),
    "links": frozenset({"policy", "protocol", "wire", "model"}),
    "machine": CORES | {"policy", "protocol", "model", "config"},
    "reports": CORES
    | {"machine", "cluster", "policy", "protocol", "classad", "wire", "model", "config"}
    | {"identity", "jobs"},
    "wire": frozenset({"protocol.messages", "system.frames", "model"}),
    "launcher": frozenset({"model", "system"}),
    "store": frozenset({"model", "system"}),
    "identity": frozenset({"protocol.messages", "wire.joining", "model", "config", "system"}),
    "host": frozenset({"protocol.messages", "wire", "system", "model", "config", "classad"}),
    "state": frozenset(
        {"host", "identity", "store", "protocol.messages", "system", "model", "config"}
    ),
    "plugins": frozenset({"policy", "config", "model"}),
    "client": frozenset({"wire", "system.frames", "model"}),
    "daemon": EVERYTHING_FOR_DAEMON,
    "supervisor": frozenset({"host", "state", "protocol.messages", "wire", "system", "model"}),
    "sim": CORES
    | {"machine", "cluster", "jobs", "links", "policy", "protocol", "plugins", "wire", "model"}
    | {"config"},
    "session": frozenset({"launcher.contract", "system", "model"}),
    "cli": frozenset({"client", "wire", "model", "config"}),
}

# Single modules that may import more, and then only inside a function or for types: a command that
# does not need them must not pay for loading them.
INSIDE_FUNCTIONS: Mapping[str, frozenset[str]] = {
    "iriai.cli.machine.up": frozenset({"supervisor", "state"}),
    "iriai.cli.machine.status": frozenset({"state"}),
    "iriai.cli.machine.without_daemon": frozenset({"supervisor", "state"}),
    "iriai.cli.machine.down": frozenset({"supervisor"}),
    "iriai.cli.machine.backup": frozenset({"state"}),
    "iriai.cli.machine.restore": frozenset({"state"}),
    "iriai.cli.cluster.cluster": frozenset({"host", "state", "identity"}),
    "iriai.cli.machine.config": frozenset({"identity"}),
    "iriai.cli.settings.changing": frozenset({"identity"}),
    "iriai.cli.cluster.eject": frozenset({"identity"}),
    "iriai.cli.cluster.operator": frozenset({"identity", "state"}),
    "iriai.cli.cluster.join": frozenset({"state", "identity"}),
    "iriai.cli.cluster.operator_session": frozenset({"identity"}),
    "iriai.cli.machine.doctor": frozenset({"system.extras"}),
    "iriai.cli.machine.session_agent": frozenset({"system.atomic_files"}),
    "iriai.cli.simulate.options": frozenset({"plugins"}),
    "iriai.cli.simulate.simulate": frozenset({"sim", "plugins", "system.extras"}),
    "iriai.cli.simulate.faults": frozenset({"sim"}),
    "iriai.cli.simulate.policy": frozenset({"sim", "plugins"}),
    "iriai.cli.top.top": frozenset({"system.extras"}),
}

# A process imports what it uses: libraries that cost memory or start-up time, and the packages
# that may load them. Where a library is not named here anybody may.
LIBRARIES: Mapping[str, frozenset[str]] = {
    "cryptography": frozenset({"identity"}),
    "classad2": frozenset({"classad"}),
    "dateutil": frozenset({"home"}),
    "matplotlib": frozenset({"sim", "cli"}),
    "numpy": frozenset({"classad", "policy", "host"}),  # host: to measure, in another process
    "rich": frozenset({"cli"}),
    "jeepney": frozenset({"host", "session"}),
    "xcffib": frozenset({"session"}),
    "textual": frozenset({"cli"}),
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
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue  # an import is a statement, and lies in no expression
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in _targets(child, module):
                yield Import(target, child.lineno, inside, typing)
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        guarded = isinstance(child, ast.If) and _is_type_checking(child.test)
        yield from _walk(child, module, inside or function, typing or guarded)


@cache
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

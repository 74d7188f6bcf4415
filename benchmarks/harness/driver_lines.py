"""How many lines the driver has, and how many of them decide although they belong to no driver.

The driver is `daemon` and `supervisor`. A function there *acts* if one of these holds:

- it awaits;
- it names something of a standard module that reaches outside of the process (`OUTSIDE`: sockets,
  files, clocks, processes, threads, the event loop), a built-in function that does, a value whose
  type is of such a module, or a method that only paths have (`PATH_METHODS`);
- it names a function, method or property of iriai that acts, wherever that is defined.

Any other function decides, and could be in a pure package; a constructor does so only if no method
of its class acts. What a name is comes from imports, annotations and what constructors assign; a
value without any of these does not act, nor does logging. A nested function belongs to the one
around it. A function has its lines from the first decorator to its end; stubs of protocols have
none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DRIVERS = ("iriai.daemon", "iriai.supervisor")
OUTSIDE = frozenset(
    {"asyncio", "ctypes", "fcntl", "glob", "grp", "mmap", "multiprocessing", "os", "pwd"}
    | {"resource", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3"}
    | {"sqlalchemy", "ssl", "subprocess", "tarfile", "tempfile", "threading", "time", "uvloop"}
)
INSIDE = frozenset({"os.path", "os.fsdecode", "os.fsencode", "os.strerror", "os.sep"})
"""Of those modules, what only computes."""
BUILT_IN = frozenset({"open", "print", "input"})
PATH_METHODS = frozenset(
    {"chmod", "exists", "is_dir", "is_file", "iterdir", "lstat", "mkdir", "read_bytes"}
    | {"read_text", "rglob", "rmdir", "touch", "unlink", "write_bytes", "write_text"}
)
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_AWAITS = ast.Await | ast.AsyncFor | ast.AsyncWith


@dataclass
class _Class:
    bases: list[str]
    methods: dict[str, _Function] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    """Of attributes: the dotted names of their classes."""


@dataclass
class _Function:
    module: str
    node: _FUNCTIONS
    owner: str
    """The dotted name of its class; empty: it has none."""
    acts: bool = False
    uses: set[int] = field(default_factory=set)
    """Functions that it names, by `id`."""


class Source:
    """All functions of a tree of Python files, and which of them act."""

    def __init__(self, files: dict[str, str]) -> None:
        """`files` are texts by dotted module name."""
        self._names: dict[str, dict[str, str]] = {}
        """Of each module: local names and what they stand for, dotted."""
        self._classes: dict[str, _Class] = {}
        self._functions: dict[str, _Function] = {}
        trees = {module: ast.parse(text) for module, text in files.items()}
        for module, tree in trees.items():
            self._declare(module, tree)
        for module, tree in trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._note_types(module, node)
        self._all = [*self._functions.values()]
        self._all += [each for kind in self._classes.values() for each in kind.methods.values()]
        for function in self._all:
            self._look(function)
        self._spread()

    def deciding(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, first line and lines of each function of the driver that decides."""
        for function in self._all:
            node = function.node
            if function.acts or not function.module.startswith(DRIVERS) or _is_stub(node):
                continue
            if node.name == "__init__" and self._has_acting_method(function.owner):
                continue
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            name = f"{function.owner or function.module}.{node.name}"
            yield name, first, (node.end_lineno or first) - first + 1

    def _has_acting_method(self, owner: str) -> bool:
        return any(each.acts for each in self._classes[owner].methods.values())

    # --- names -----------------------------------------------------------------------------------

    def _declare(self, module: str, tree: ast.Module) -> None:
        names = self._names[module] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    names[each.asname or each.name.split(".")[0]] = (
                        each.name if each.asname else each.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module:
                for each in node.names:
                    names[each.asname or each.name] = f"{node.module}.{each.name}"
        for node in tree.body:
            if isinstance(node, _FUNCTIONS):
                names[node.name] = f"{module}.{node.name}"
                self._functions[f"{module}.{node.name}"] = _Function(module, node, "")
            elif isinstance(node, ast.ClassDef):
                dotted = names[node.name] = f"{module}.{node.name}"
                made = self._classes[dotted] = _Class([])
                for method in node.body:
                    if isinstance(method, _FUNCTIONS):
                        made.methods[method.name] = _Function(module, method, dotted)

    def _note_types(self, module: str, node: ast.ClassDef) -> None:
        made = self._classes.get(f"{module}.{node.name}")
        if made is None:
            return
        made.bases = [self._dotted(module, base) for base in node.bases]
        for each in ast.walk(node):
            target: ast.expr | None = None
            if isinstance(each, ast.AnnAssign):
                target, known = each.target, self._annotated(module, each.annotation)
                if isinstance(target, ast.Name):
                    made.types[target.id] = known
            elif isinstance(each, ast.Assign) and len(each.targets) == 1:
                target, known = each.targets[0], ""
            if isinstance(target, ast.Attribute) and _is_self(target.value):
                made.types[target.attr] = made.types.get(target.attr) or known
        for method in made.methods.values():
            arguments = self._arguments(method)
            for each in ast.walk(method.node):
                if not isinstance(each, ast.Assign):
                    continue
                known = self._type(each.value, method, arguments)
                for target in each.targets:
                    if isinstance(target, ast.Attribute) and _is_self(target.value):
                        made.types[target.attr] = made.types.get(target.attr) or known

    def _dotted(self, module: str, node: ast.expr) -> str:
        """Return what a name, or a chain of attributes of a module, stands for; or nothing."""
        if isinstance(node, ast.Name):
            return self._names[module].get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self._dotted(module, node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Subscript):
            return self._dotted(module, node.value)
        return ""

    def _annotated(self, module: str, node: ast.expr | None) -> str:
        """Return the class that an annotation names; of a union the first that is known."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        if isinstance(node, ast.BinOp):
            return self._annotated(module, node.left) or self._annotated(module, node.right)
        return "" if node is None else self._dotted(module, node)

    def _arguments(self, function: _Function) -> dict[str, str]:
        """Return the types of arguments and local names, by name."""
        found: dict[str, str] = {}
        for node in ast.walk(function.node):
            if isinstance(node, ast.arg):
                found[node.arg] = self._annotated(function.module, node.annotation)
        for node in ast.walk(function.node):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                [target] = node.targets
                if isinstance(target, ast.Name) and not found.get(target.id):
                    found[target.id] = self._type(node.value, function, found)
        if function.owner:
            found["self"] = function.owner
        return found

    def _type(self, node: ast.expr, function: _Function, known: dict[str, str]) -> str:
        """Return the dotted class of a value; or nothing."""
        if isinstance(node, ast.Name) and node.id in known:
            return known[node.id]
        if isinstance(node, ast.Attribute):
            owner = self._type(node.value, function, known)
            if owner.split(".")[0] in OUTSIDE:
                return owner
            found = self._member(owner, node.attr)
            if isinstance(found, _Function):
                return self._annotated(found.module, found.node.returns)
            return found
        if isinstance(node, ast.Call):
            dotted = self._dotted(function.module, node.func)
            called = self._functions.get(dotted)
            if called is not None:
                return self._annotated(called.module, called.node.returns)
            if dotted:
                return dotted
            return self._type(node.func, function, known)
        return ""

    def _member(self, owner: str, name: str) -> _Function | str:
        """Return a method, or the type of an attribute, of a class or one of its bases."""
        made = self._classes.get(owner)
        if made is None:
            return ""
        if name in made.methods:
            return made.methods[name]
        if made.types.get(name):
            return made.types[name]
        for base in made.bases:
            if found := self._member(base, name):
                return found
        return ""

    # --- acting ----------------------------------------------------------------------------------

    def _look(self, function: _Function) -> None:
        known = self._arguments(function)
        for statement in function.node.body:
            for node in ast.walk(statement):
                self._look_at(node, function, known)

    def _look_at(self, node: ast.AST, function: _Function, known: dict[str, str]) -> None:
        if isinstance(node, _AWAITS):
            function.acts = True
        if not isinstance(node, ast.Name | ast.Attribute):
            return
        if isinstance(node, ast.Name):
            if node.id in known:
                return
            dotted = self._dotted(function.module, node)
            if node.id in BUILT_IN and not dotted:
                function.acts = True
        else:
            dotted = self._dotted(function.module, node)
            owner = "" if dotted else self._type(node.value, function, known)
            found = self._member(owner, node.attr)
            if isinstance(found, _Function):
                function.uses.add(id(found))
            if owner.split(".")[0] in OUTSIDE or node.attr in PATH_METHODS:
                function.acts = True
        if dotted.split(".")[0] in OUTSIDE and dotted not in OUTSIDE:
            function.acts |= not dotted.startswith(tuple(INSIDE))
        for each in (self._functions.get(dotted), self._member(dotted, "__init__")):
            if isinstance(each, _Function):
                function.uses.add(id(each))

    def _spread(self) -> None:
        """Whoever names a function that acts, acts."""
        acting = {id(each) for each in self._all if each.acts}
        more = True
        while more:
            more = False
            for each in self._all:
                if not each.acts and each.uses & acting:
                    each.acts = more = True
                    acting.add(id(each))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_stub(node: _FUNCTIONS) -> bool:
    """Return whether there is nothing but a docstring and `...`."""
    return all(
        isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body
    )


def modules_of(root: Path) -> dict[str, str]:
    """Return the texts of all Python files of the product, by dotted module name."""
    base = root / "src"
    return {
        ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__"): (
            path.read_text(encoding="utf-8")
        )
        for path in sorted((base / "iriai").rglob("*.py"))
    }


def driver_figures(root: Path) -> dict[str, int]:
    """Return `driver_lines` and `deciding_lines`."""
    files = modules_of(root)
    of_driver = [text for module, text in files.items() if module.startswith(DRIVERS)]
    return {
        "driver_lines": sum(len(text.splitlines()) for text in of_driver),
        "deciding_lines": sum(lines for _, _, lines in Source(files).deciding()),
    }

"""As root no path from a message is opened: such a path is handed on, to be opened as its user."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.source import Module, Violation

PATHS = frozenset({"working_directory", "output", "error"})
"""Fields of a job that name files and directories of its user."""
HANDED_ON = frozenset(
    {
        "iriai.launcher.tasks.admission",
        "iriai.launcher.spawn.spawn",
        "iriai.launcher.containment.namespaces.visible",
    }
)
"""Modules of the launcher that read them: to look at their size, to have the helper open them once
it is the user, to say what was wrong, and to see in which entry of /tmp they lie. The one directory
that a message names and root opens is the daemon's spool, in `iriai.launcher.directories.spool`,
which looks whose it is."""
JOBS = frozenset({"spec", "job_spec"})
"""What variables and attributes that hold a job's description are called."""
OPENING = frozenset(
    {
        *("open", "unlink", "remove", "rmdir", "mkdir", "makedirs", "rename", "replace", "link"),
        *("symlink", "mkfifo", "mknod", "chown", "lchown", "chmod", "lchmod", "utime", "truncate"),
        *("stat", "lstat", "access", "listdir", "scandir", "readlink", "setxattr", "rmtree"),
        *("write_text", "write_bytes", "read_text", "read_bytes", "touch", "Path"),
    }
)
"""Calls that do something along a path."""


def paths_of_users(modules: Iterable[Module]) -> list[Violation]:
    """Find paths from messages that are read elsewhere, and modules that open while they read."""
    return [
        violation
        for module in modules
        if module.package == "launcher"
        for violation in _violations(module)
    ]


def _violations(module: Module) -> Iterator[Violation]:
    is_handing_on = module.name in HANDED_ON
    for node in module.nodes:
        if not is_handing_on and isinstance(node, ast.Attribute) and _is_path(node):
            yield Violation(
                module.name, node.lineno, f"reads .{node.attr}, a path that a user named, as root"
            )
        if is_handing_on and isinstance(node, ast.Call) and _opens(node):
            yield Violation(module.name, node.lineno, "opens where paths of users are handed on")


def _opens(node: ast.Call) -> bool:
    """Whether a call does something along a path that is no constant of the system."""
    is_constant = bool(node.args) and ast.unparse(node.args[0]) == "os.devnull"
    return _name(node.func) in OPENING and not is_constant


def _is_path(node: ast.Attribute) -> bool:
    return node.attr == "working_directory" or (node.attr in PATHS and _name(node.value) in JOBS)


def _name(node: ast.expr) -> str:
    """Of `os.open` and of `x.open`: the last word; self.payloads.open(name) is no path."""
    if isinstance(node, ast.Attribute):
        owner = ast.unparse(node.value)
        return "" if owner.startswith("self._payloads") else node.attr
    return node.id if isinstance(node, ast.Name) else ""

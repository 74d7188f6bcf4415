"""Hooks: nobody sets what another object calls after that object was made."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.source import Module, Violation, terminal_name

HOOKED = "iriai.daemon."


def _assigned(node: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """Yield attributes of other objects that a statement sets, and to what."""
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets, value = [node.target], node.value
    else:
        return
    for target in targets:
        if isinstance(target, ast.Attribute) and not (
            isinstance(target.value, ast.Name) and target.value.id == "self"
        ):
            yield target, value


def _is_hook(target: ast.Attribute, value: ast.expr) -> bool:
    """Return whether this sets something to be called, as far as the text tells."""
    if target.attr.startswith("on_") or isinstance(value, ast.Lambda):
        return True
    if isinstance(value, ast.Call):
        return terminal_name(value.func) == "partial"
    if not isinstance(value, ast.Attribute):
        return False
    is_own = isinstance(value.value, ast.Name) and value.value.id == "self"
    return is_own or isinstance(target.value, ast.Attribute)


def late_hooks(modules: Iterable[Module]) -> list[Violation]:
    """Find attributes of other objects in the daemon that are set to something to be called.

    What is named `on_...`; whatever is set to a lambda, a partial or an attribute of `self`; and
    what is set to any attribute in an object that another one keeps. A constructor takes what its
    object calls, or the object names to the routes what it takes.
    """
    return [
        Violation(module.name, node.lineno, f"sets {ast.unparse(target)} after it was made")
        for module in modules
        if module.name.startswith(HOOKED)
        for node in module.nodes
        for target, value in _assigned(node)
        if _is_hook(target, value)
    ]

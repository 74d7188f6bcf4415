"""Cores are put together in one place each, which the daemon and the simulator both use.

And the simulator handles nothing by itself that a core handles: it would be right where the daemon
is wrong, and no seed would find that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.rules_imports import imports_of
from tests.architecture.source import Module, Violation, terminal_name

COMPOSED = {
    **dict.fromkeys(
        ("Node", "Home", "Broker", "Election", "Machine", "Federation"),
        "iriai.machine.composition",
    ),
    **dict.fromkeys(
        ("ClusterCore", "SiteView", "LedgerSync", "EntrySlices"), "iriai.cluster.member"
    ),
    **dict.fromkeys(
        ("Membership", "Directory", "Publisher"), "iriai.protocol.membership.cluster_core"
    ),
}
"""Cores, and the one module that constructs each."""
CHECKER = "iriai.machine.checks"
"""It builds a home from a store once more, to compare the two."""
HANDLED = frozenset(
    {"EntriesChanged", "LedgerSync", "SiteView", "EntrySlices", "Membership", "Directory"}
    | {"is_authorized", "is_of_cluster"}
)
"""What the simulator names nowhere: who names it handles membership, directory, ledger or
authorization."""


def scattered_construction(modules: Iterable[Module]) -> list[Violation]:
    """Find cores that are constructed outside of their module, or given to a factory there."""
    return [
        Violation(module.name, call.lineno, f"constructs {core}, as {COMPOSED[core]} alone does")
        for module in modules
        for call in module.nodes
        if isinstance(call, ast.Call)
        for core in _constructed(call)
        if module.name not in (COMPOSED[core], CHECKER)
    ]


def _constructed(call: ast.Call) -> Iterator[str]:
    name = terminal_name(call.func)
    if name in COMPOSED:
        yield name
    if name == "partial":
        yield from (each for arg in call.args if (each := terminal_name(arg)) in COMPOSED)


def handlers_of_the_simulator(modules: Iterable[Module]) -> list[Violation]:
    """Find modules of the simulator that name what cores alone handle."""
    return [
        Violation(module.name, each.line, f"handles {each.target.split('.')[-1]} by itself")
        for module in modules
        if module.package == "sim"
        for each in imports_of(module)
        if each.target.split(".")[-1] in HANDLED
    ]

"""What comes from outside is bounded where it is declared, decoded in one way, and never asserted.

Bounds are looked for in the types themselves: a field that msgspec would fill with a text, a list
or a number of any size breaks the rule. Which types come from outside follows from the decoders
that the product makes, and from the unions of messages that are listed.
"""

from __future__ import annotations

import ast
import importlib
import typing
from collections.abc import Iterable, Iterator

import msgspec.inspect as shapes

from tests.architecture.source import Module, Violation, terminal_name

UNIONS = (
    ("iriai.wire.envelopes", "Request"),
    ("iriai.wire.envelopes", "Reply"),
    ("iriai.wire.client_codec", "NumberedReply"),
    ("iriai.wire.requests", "JobRow"),
    ("iriai.wire.greetings", "GreetingFrame"),
    ("iriai.wire.links", "LinkFrame"),
    ("iriai.wire.inquiries", "Question"),
    ("iriai.wire.inquiries", "Told"),
    ("iriai.protocol.messages.scheduling", "Message"),
    ("iriai.launcher.contract.messages", "ToLauncher"),
    ("iriai.launcher.contract.messages", "FromLauncher"),
    ("iriai.launcher.contract.session_messages", "AgentMessage"),
)
"""What entrances take in, whoever decodes it."""
OUR_OWN = ("iriai.store.", "iriai.home.", "iriai.sim.", "iriai.launcher.journal.journal")
"""What reads back only what it has written itself, or fails as a whole where that is damaged."""
OUR_FILES = (
    *OUR_OWN,
    "iriai.state.backup",
    "iriai.host.speed_benchmark",
    "iriai.launcher.contract.machine_config",
    "iriai.identity.storage.cluster_files",
)
"""Files of the administrator, a few kB each, which nobody else can write."""
DECODES_ITSELF = (*OUR_OWN, "iriai.model.bounds", "iriai.client.client")
"""Who may call a decoder: the client reads rows of a listing by the million, from a daemon that it
trusts with its jobs."""
ENTRANCES = frozenset(
    {"cli", "client", "config", "daemon", "host", "identity", "launcher", "model", "plugins"}
    | {"protocol", "state", "store", "supervisor", "system", "wire"}
)
"""Packages that bytes of peers, users and files pass through."""
CORES = frozenset({"broker", "classad", "home", "machine", "node", "policy", "reports"})
"""Packages that these hand on what they have taken."""
CHECKING = (
    "iriai.machine.checks",
    "iriai.machine.cluster_checks",
)
"""Modules of nothing but invariants, for tests and simulations."""
TOLD = frozenset({"wire", "protocol"})
"""Packages whose names are seen by nobody else."""
CLASS_NAMES = frozenset({"__name__", "__qualname__"})
CHECKS = frozenset({"check"})
"""Methods that tests and simulations call, to look at the whole state."""


def unbounded(kind: object) -> list[str]:
    """Paths of fields of a type that may be filled with anything of any size."""
    return sorted(set(_unbounded(shapes.type_info(kind), getattr(kind, "__name__", ""), ())))


def _unbounded(
    kind: shapes.Type, path: str, within: tuple[object, ...], *, is_bits: bool = False
) -> Iterator[str]:
    if isinstance(kind, shapes.Metadata):
        is_bits = bool(kind.extra and "bits" in kind.extra)
        yield from _unbounded(kind.type, path, within, is_bits=is_bits)
    elif isinstance(kind, shapes.StructType | shapes.NamedTupleType):
        if kind.cls not in within:
            for field in kind.fields:
                where = f"{kind.cls.__name__}.{field.name}"
                yield from _unbounded(field.type, where, (*within, kind.cls))
    else:
        if not _is_bounded(kind, is_bits=is_bits):
            yield path
        for part, name in _parts(kind):
            yield from _unbounded(part, path + name, within)


def _is_bounded(kind: shapes.Type, *, is_bits: bool) -> bool:
    match kind:
        case shapes.IntType() | shapes.FloatType():
            has_least = kind.ge is not None or kind.gt is not None
            return has_least and (is_bits or kind.le is not None or kind.lt is not None)
        case shapes.AnyType() | shapes.CustomType():
            return False
        case _:
            return getattr(kind, "max_length", 0) is not None


def _parts(kind: shapes.Type) -> Iterator[tuple[shapes.Type, str]]:
    """What a list, a table or a choice is made of, and how it is called."""
    if isinstance(kind, shapes.DictType):
        yield kind.key_type, ".key"
        yield kind.value_type, "[]"
    elif isinstance(kind, shapes.UnionType):
        yield from ((each, "") for each in kind.types)
    elif isinstance(kind, shapes.TupleType):
        yield from ((each, f"[{number}]") for number, each in enumerate(kind.item_types))
    elif hasattr(kind, "item_type"):
        yield kind.item_type, "[]"


def unbounded_messages(modules: Iterable[Module]) -> list[Violation]:
    """Report every field without bounds of what is decoded from outside."""
    found: dict[str, Violation] = {}
    for name, union in UNIONS:
        kind = getattr(importlib.import_module(name), union)
        for each in typing.get_args(kind) or (kind,):
            for path in unbounded(each):
                found.setdefault(path, Violation(name, 0, f"{path} has no bounds"))
    for module in modules:
        if module.name.startswith(OUR_FILES):
            continue
        for line, kind in _decoded_types(module):
            for path in unbounded(kind):
                found.setdefault(path, Violation(module.name, line, f"{path} has no bounds"))
    return list(found.values())


def _decoded_types(module: Module) -> Iterator[tuple[int, object]]:
    """The types that a module makes decoders for, but for those that are named by a variable."""
    calls = [n for n in module.nodes if isinstance(n, ast.Call) and n.args]
    for call in calls:
        if terminal_name(call.func) == "Decoder":
            names = vars(importlib.import_module(module.name))
            try:
                kind = eval(ast.unparse(call.args[0]), dict(names))
            except NameError:
                continue
            yield call.lineno, kind


def uncontained_decoding(modules: Iterable[Module]) -> list[Violation]:
    """Report bytes that are decoded past `model.bounds`, whose errors nobody expects."""
    return [
        Violation(module.name, node.lineno, "decodes by itself; call model.decoding.decoded")
        for module in modules
        if not module.name.startswith(DECODES_ITSELF)
        for node in module.nodes
        if isinstance(node, ast.Attribute) and node.attr == "decode" and _is_decoder(node.value)
    ]


def _is_decoder(owner: ast.expr) -> bool:
    """Whether it is `msgspec.json`, `msgspec.msgpack`, or a decoder made on the spot."""
    if isinstance(owner, ast.Call):
        return terminal_name(owner.func) == "Decoder"
    return ast.unparse(owner) in {"msgspec.json", "msgspec.msgpack"}


def implicit_tags(modules: Iterable[Module]) -> list[Violation]:
    """Report what would be called after its source where it is written: a rename would change it.

    That is a tag that no text or number stands for, an enum that counts by itself, and the name of
    a class where messages are made.
    """
    return [
        Violation(module.name, line, words)
        for module in modules
        for node in module.nodes
        for line, words in _implicit(node, is_message=module.package in TOLD)
    ]


def _implicit(node: ast.AST, *, is_message: bool) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.ClassDef):
        given = {each.arg: each.value for each in node.keywords}
        tag = given.get("tag")
        if ("tag_field" in given and tag is None) or (tag is not None and not _is_said(tag)):
            yield node.lineno, f"{node.name} has a tag that follows from its name; say it"
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"auto", "enum.auto"}:
        yield node.lineno, "auto() counts by itself; say the value"
    elif is_message and isinstance(node, ast.Attribute) and node.attr in CLASS_NAMES:
        yield node.lineno, f"uses {node.attr}, which a rename changes; give it a tag"


def _is_said(tag: ast.expr) -> bool:
    return isinstance(tag, ast.Constant) and type(tag.value) in (str, int)


def asserted_input(modules: Iterable[Module]) -> list[Violation]:
    """Report assertions of what comes from outside, which can be wrong at any time.

    Python drops every `assert` with PYTHONOPTIMIZE. Where bytes of peers, users and files come in
    there is none but in `check`; in the cores one may also narrow a type, since what follows fails
    by itself where that is wrong.
    """
    return [
        Violation(module.name, line, "asserts what comes from outside; refuse it, or drop it")
        for module in modules
        if module.package in ENTRANCES | CORES and not module.name.startswith(CHECKING)
        for line in _assertions(module.tree, may_narrow=module.package in CORES)
    ]


def _assertions(node: ast.AST, *, may_narrow: bool) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and child.name in CHECKS:
            continue
        if not (may_narrow and _is_allowed_in_cores(child)) and _asserts(child):
            yield child.lineno  # type: ignore[attr-defined]
        yield from _assertions(child, may_narrow=may_narrow)


def _asserts(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and _raises_assertion(node))


def _is_allowed_in_cores(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and _narrows(node.test))


def _narrows(test: ast.expr) -> bool:
    """Whether a condition says no more than of which type a name or an attribute is."""
    if isinstance(test, ast.Call):
        return terminal_name(test.func) == "isinstance"
    is_single = isinstance(test, ast.Compare) and len(test.ops) == 1
    return is_single and ast.unparse(test).endswith(" is not None")


def _raises_assertion(node: ast.Raise) -> bool:
    if node.exc is None:
        return False
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return terminal_name(raised) == "AssertionError"

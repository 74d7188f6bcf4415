"""reference/configuration.md: every key of iriai.toml, from the structs that read it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from iriai.config.keys import Key, KeyType, keys
from iriai.config.sections import Sections

_HEAD = """\
# Every key of `iriai.toml`

Made from the source; [configuration](../guide/configuration.md) explains the file and gives an
example, `iriai config show` prints what is in force on a machine and where each value comes from.
Durations are seconds as a number, or text such as `"90s"`, `"1h30m"`, `"7d"`; sizes are bytes as a
number, or text such as `"4G"` (4 x 2^30). *Measured* is what the daemon finds when it starts.
"""


def configuration_reference() -> str:
    """The page."""
    parts = [_HEAD]
    about = _about(Sections)
    for name, key in keys(Sections).items():
        entries = key.type.entries
        if key.type.table is not None:
            parts += _section(f"[{name}]", key.type.table)
        elif entries is not None and entries[1].table is not None:
            parts += _section(f"[{name}.NAME]", entries[1].table)
        else:
            parts += [f"## `[{name}]`", _entries(key.type, about[key.field])]
    return "\n\n".join(parts) + "\n"


def _section(title: str, section: type[msgspec.Struct]) -> Iterator[str]:
    yield f"## `{title}`"
    yield _sentence(inspect.getdoc(section) or "")
    about = _about(section)
    defaults = section()
    rows = [
        _row(name, key, getattr(defaults, key.field), about[key.field])
        for name, key in keys(section).items()
        if key.type.entries is None
    ]
    yield "\n".join(["| Key | Default | May be | What it does |", "|---|---|---|---|", *rows])
    for name, key in keys(section).items():
        if key.type.entries is not None:
            yield f"### `{title.removesuffix(']')}.{name}]`"
            yield _entries(key.type, about[key.field])


def _row(name: str, key: Key, value: object, about: str) -> str:
    default = "measured" if key.type.is_measured and value is None else f"`{key.type.show(value)}`"
    absent = "`none`" if key.type.may_be_none else "Not given"
    text = _linked(re.sub(r"\bNone\b", absent, about))
    return f"| `{name}` | {default} | {_cell(key.type.expected)} | {_cell(text)} |"


def _entries(table: KeyType, about: str) -> str:
    assert table.entries is not None
    name, value = table.entries
    return f"{_sentence(about)}\n\nEach name is {name.expected}; each value {value.expected}."


def _sentence(text: str) -> str:
    """The text without the name of its section, which stands above it."""
    text = re.sub(r"^`\[[^`]*\]`: ", "", text)
    return _linked(text[:1].upper() + text[1:]).replace("None:", "Not given:")


def _linked(text: str) -> str:
    return re.sub(r"docs/guide/([a-z-]+)\.md", r"[\1](../guide/\1.md)", text)


def _about(section: type) -> dict[str, str]:
    """What the source says below each field."""
    (body,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in pairwise(body.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                found[name] = " ".join(text.split())
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

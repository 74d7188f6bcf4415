"""Golden files as texts, and how they are read: of a family three lines for each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.golden.frames.database import rows_text, schema_text
from tests.golden.frames.families import Family, families
from tests.golden.frames.kinds import choices
from tests.golden.frames.versions import versions_text

FOLDER = Path(__file__).parent / "held"
FRAME_PREFIX_BYTES = 4


class Golden(NamedTuple):
    """One sample of a golden file."""

    key: str
    rendering: str
    """For whoever reads a difference: the content as JSON, bytes as base64."""
    content: bytes


def file_of(family: str) -> Path:
    """Where a family is held."""
    return FOLDER / f"{family}.txt"


def rendered(content: bytes) -> str:
    """Msgpack, in a frame or not, as JSON, which may be it already; else the bytes themselves."""
    body = content[FRAME_PREFIX_BYTES:]
    is_framed = int.from_bytes(content[:FRAME_PREFIX_BYTES], "big") == len(body) > 0
    if not is_framed and content[:1] in (b"{", b"["):
        return " ".join(content.decode().split())
    try:
        tree = msgspec.msgpack.decode(body if is_framed else content)
    except msgspec.DecodeError:
        return repr(content)
    return msgspec.json.encode(tree).decode()


def text_of(family: Family) -> str:
    """The golden file of a family, as it would be now."""
    golden = (Golden(each.key, rendered(each.content), each.content) for each in family.samples)
    blocks = (f"{each.key}\n  {each.rendering}\n  {each.content.hex()}\n" for each in golden)
    return "\n".join(sorted(blocks))


def read(family: str) -> dict[str, Golden]:
    """A golden file by key; nothing where there is none."""
    file = file_of(family)
    blocks = file.read_text().split("\n\n") if file.exists() else []
    found = {}
    for block in blocks:
        key, rendering, content = block.splitlines()
        found[key] = Golden(key, rendering.strip(), bytes.fromhex(content.strip()))
    return found


def choices_text() -> str:
    """What enums may be, one a line: the name of an enum is nobody's business, its values are."""
    kinds = (kind for family in families() for kind in family.kinds)
    return "".join(" ".join(values) + "\n" for values in choices(kinds))


OTHERS: Mapping[str, Callable[[], str]] = {
    "choices.list": choices_text,
    "schema.sql": schema_text,
    "versions.list": versions_text,
    "rows.jsonl": rows_text,
}
"""Golden files that hold no messages."""


def golden_rows() -> list[tuple[str, dict[str, Any]]]:
    """The rows that are held: the name of the table and the values by column."""
    lines = (FOLDER / "rows.jsonl").read_text().splitlines()
    return [msgspec.json.decode(line, type=tuple[str, dict[str, Any]]) for line in lines]

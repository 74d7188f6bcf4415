"""Golden files as texts: three lines for each sample, and how they are read and written."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.golden.frames.families import Family

FOLDER = Path(__file__).parent
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
    """Msgpack, in a frame or not, as JSON; anything else as it is."""
    body = content[FRAME_PREFIX_BYTES:]
    is_framed = int.from_bytes(content[:FRAME_PREFIX_BYTES], "big") == len(body) > 0
    if not is_framed and content[:1] in (b"{", b"["):
        return " ".join(content.decode().split())
    tree = msgspec.msgpack.decode(body if is_framed else content)
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

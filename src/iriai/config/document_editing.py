"""The text of a configuration with other values of one section: all that people wrote stays.

It changes lines of a section that is written as `[queues.1]` with a key in each line; a text that
is written in another way is refused. `tomllib` has to read the new text as what was wanted.
docs/adr/0117-settings-live.md.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import NamedTuple

from iriai.config.live_settings import LiveChange, raw_value
from iriai.model.problem import Refused

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")
_PART = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+)\s*(?:\.|$)""")
_LINE = re.compile(
    r"""(?P<before>\s*(?P<key>"[^"]*"|'[^']*'|[\w-]+)\s*=\s*)"""
    r"""(?P<value>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s#"'\[{]+)(?P<after>\s*(?:\#.*)?)"""
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def edited(text: str, change: LiveChange) -> str:
    """Return `text` with the keys of a change, or without its section if it has none.

    Raises:
        UsageProblem: a value is wrong.
        Refused: the text is written in a way that is not edited here.
    """
    values = {key: raw_value(change.section, key, value) for key, value in change.settings}
    wanted = _with(tomllib.loads(text), change, values)
    lines = text.split("\n")
    region = _region(lines, change)
    if not values:
        lines = _without(lines, region) if region else lines
    elif region is None:
        _add_section(lines, change, values)
    else:
        _set(lines, region, values)
    new = "\n".join(lines)
    try:
        is_right = tomllib.loads(new) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise Refused(
            "not-edited",
            f"[{change.path}] is written in a way that this command does not change",
            f"use 'iriai config edit'; write it as [{change.path}] and a key in each line",
        )
    return new


class _Region(NamedTuple):
    """The lines of a section: its header, and those up to the next header."""

    start: int
    end: int


def _with(
    document: dict[str, object], change: LiveChange, values: dict[str, object]
) -> dict[str, object]:
    """Return what the new text has to say."""
    section = document.get(change.section)
    if not isinstance(section, dict):
        section = {}
    if not change.name:
        after = {**section, **values} if values else None
    elif values:
        after = {**section, change.name: {**section.get(change.name, {}), **values}}
    else:
        after = {name: entry for name, entry in section.items() if name != change.name} or None
    others = {name: entry for name, entry in document.items() if name != change.section}
    return others if after is None else {**others, change.section: after}


def _path(line: str) -> list[str] | None:
    """Return the names in a header; None if the line is none."""
    found = _HEADER.fullmatch(line.removesuffix("\r"))
    return None if found is None else [_plain(part) for part in _PART.findall(found[1])]


def _plain(part: str) -> str:
    if part.startswith('"'):
        try:
            return str(json.loads(part))
        except ValueError:
            return part
    return part.strip("'")


def _region(lines: list[str], change: LiveChange) -> _Region | None:
    path = [change.section, change.name] if change.name else [change.section]
    start = next((number for number, line in enumerate(lines) if _path(line) == path), None)
    return None if start is None else _Region(start, _end(lines, start))


def _end(lines: list[str], start: int) -> int:
    headers = (n for n in range(start + 1, len(lines)) if lines[n].lstrip().startswith("["))
    return next(headers, len(lines))


def _after_keys(lines: list[str], region: _Region) -> int:
    """Return where a key is added: what follows the last one belongs to the next section."""
    keys = [n for n in range(region.start, region.end) if _is_written(lines[n])]
    return keys[-1] + 1


def _is_written(line: str) -> bool:
    """Return whether a line is neither blank nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _set(lines: list[str], region: _Region, values: dict[str, object]) -> None:
    ending = "\r" if lines[region.start].endswith("\r") else ""
    known = {
        _plain(found["key"]): (number, found)
        for number in range(region.start + 1, region.end)
        if (found := _LINE.fullmatch(lines[number]))
    }
    place = _after_keys(lines, region)
    for key, value in values.items():
        if key in known:
            number, found = known[key]
            lines[number] = f"{found['before']}{_text(value)}{found['after']}"
        else:
            lines.insert(place, f"{key} = {_text(value)}{ending}")
            place += 1


def _add_section(lines: list[str], change: LiveChange, values: dict[str, object]) -> None:
    """Add a section behind its like, or at the end."""
    starts = [n for n, line in enumerate(lines) if (_path(line) or [""])[0] == change.section]
    name = change.name if _BARE.fullmatch(change.name) else _text(change.name)
    header = f"[{change.section}.{name}]" if change.name else f"[{change.section}]"
    new = [header, *(f"{key} = {_text(value)}" for key, value in values.items())]
    if starts:
        start = starts[-1]
        place = _after_keys(lines, _Region(start, _end(lines, start)))
        lines[place:place] = ["", *new]
        return
    while lines and not lines[-1].strip():
        lines.pop()
    lines += ["", *new, ""] if lines else [*new, ""]


def _without(lines: list[str], region: _Region) -> list[str]:
    """Return the lines without a section: comments that have a line of their own stay."""
    kept = [line for line in lines[region.start : region.end] if not _is_written(line)]
    before = lines[: region.start]
    while kept and not kept[0].strip() and (not before or not before[-1].strip()):
        del kept[0]
    return [*before, *kept, *lines[region.end :]]


def _text(value: object) -> str:
    """Return a value as TOML has it."""
    return json.dumps(value, ensure_ascii=False)

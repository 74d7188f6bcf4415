"""Reads the words of an ordinary command line by what its command declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from iriai.cli.framework.declaration import Declared


class Read(msgspec.Struct, frozen=True):
    """What words mean."""

    values: dict[str, Any]
    """The value of each option and argument, by its parameter."""
    rest: list[str]
    """The words that are no options."""


def read_words(
    words: Sequence[str], declared: Iterable[Declared], *, stops: bool, is_group: bool = False
) -> Read | None:
    """Return what `words` mean to a command that declares `declared`.

    None if they are not all right, or not ordinary: then Typer reads them, which knows all there
    is, and what to say. Where both read the words they agree. With `stops`, everything after the
    first word that is no option belongs to that word; with `is_group` it is for another command.
    """
    options = _by_name(declared)
    values: dict[str, Any] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--" or (stops and not _is_option(word)):
            rest += left if word == "--" else (word, *left)
            break
        if not _is_option(word):
            rest.append(word)
            continue
        name, equals, value = word.partition("=")
        found = options.get(name)
        if found is None or (equals and not name.startswith("--")):
            return None
        each, is_on = found
        if each.is_switch:
            if equals:
                return None
            values[each.name] = is_on
        elif not _add(values, each, value if equals else next(left, None)):
            return None
    if not is_group and not _place(values, rest, declared):
        return None
    for each in declared:
        if each.name not in values:
            if each.parameter.default is ...:
                return None
            values[each.name] = each.parameter.default
    return Read(values, rest)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _by_name(declared: Iterable[Declared]) -> dict[str, tuple[Declared, bool]]:
    """Return each option by its names, and whether a switch of this name is on."""
    found = {}
    for each in declared:
        if not each.parameter.is_argument:
            for names in each.names:
                on, _, off = names.partition("/")
                found[on] = each, True
                if off:
                    found[off] = each, False
    return found


def _place(values: dict[str, Any], rest: list[str], declared: Iterable[Declared]) -> bool:
    """Add the arguments that `rest` are; return whether they are all right."""
    left = iter(rest)
    for each in declared:
        if each.parameter.is_argument:
            for word in left:
                if not _add(values, each, word):
                    return False
                if not each.kind.startswith("list["):
                    break
    return next(left, None) is None


def _add(values: dict[str, Any], each: Declared, text: str | None) -> bool:
    """Add the value that `text` is; return whether it is all right."""
    kind = each.kind.removesuffix(" | None")
    is_list = kind.startswith("list[")
    read = _READERS.get(kind[len("list[") : -1] if is_list else kind)
    if read is None or text is None:
        return False
    try:
        value = read(text)
    except ValueError:
        return False
    settings = each.parameter.settings
    if not settings.get("min", value) <= value <= settings.get("max", value):
        return False
    if is_list:
        values.setdefault(each.name, []).append(value)
    else:
        values[each.name] = value
    return True


def _path(text: str) -> object:
    from pathlib import Path

    return Path(text)


_READERS: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float, "Path": _path}
"""What makes a value of a word, by its type as it is written; a word of any other is Typer's."""

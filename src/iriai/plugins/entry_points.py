"""What installed packages bring by entry points."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any


@cache
def declared(group: str) -> dict[str, Any]:
    """Return what each entry point of a group names, by its name, as of the first call."""
    if not _is_any_declared(group):
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry.load() for entry in entry_points(group=group)}


def _is_any_declared(group: str) -> bool:
    """Return whether an installed package may bring something of a group.

    Most machines have none, and whether it is so is found without importlib.metadata, which takes
    2 MB and stays. Packages inside an archive are left to that.
    """
    for place in map(Path, sys.path):
        with suppress(OSError):  # a place that cannot be read brings nothing
            if place.is_file():
                return True
            found = (
                *place.glob("*-info/entry_points.txt"),
                *place.glob("EGG-INFO/entry_points.txt"),
            )
            if any(_declares(each, group) for each in found):
                return True
    return False


def _declares(entry_points: Path, group: str) -> bool:
    with suppress(OSError):
        return group in entry_points.read_text(errors="replace")
    return False

"""The stored counts of one version of Python: a line each, so that changes merge.

A count is stored with the least that it ever was; it is above that only where `rises.toml` says
why.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple, TypedDict

FOLDER = Path(__file__).resolve().parent
RISES = FOLDER / "rises.toml"
TOLERATED = 0.03
"""Part by which a count may rise: libraries of another version, another patch of Python."""
_HEAD = """\
# Counts of benchmarks/guard.py under Python {version}: now, and the least so far.
# Written by `python benchmarks/guard.py --store`.
"""

Counts = dict[str, dict[str, float]]
"""By case and by what was counted."""


class Rise(TypedDict):
    """Why a stored count rose; of `rises.toml`."""

    python: str
    count: str
    """CASE.NAME"""
    before: float
    after: float
    why: str


class Stored(NamedTuple):
    """One count."""

    now: float
    least: float


class Change(NamedTuple):
    """A count that is not what is stored."""

    case: str
    name: str
    before: float
    after: float

    @property
    def is_too_much(self) -> bool:
        """Return whether it rose by more than is tolerated."""
        return self.after > self.before * (1 + TOLERATED)

    def __str__(self) -> str:
        if not self.before:
            return f"{self.case}: {self.name} rose from 0 to {self.after:,g}"
        part = 100 * (self.after / self.before - 1)
        word = "rose" if self.after > self.before else "fell"
        return (
            f"{self.case}: {self.name} {word} from {self.before:,g} to {self.after:,g} "
            f"({part:+.1f} %)"
        )


def path_of(version: str) -> Path:
    """Return the file of a version of Python, such as `3.11`."""
    return FOLDER / f"python-{version}.toml"


def this_version() -> str:
    """Return the version of the Python that runs this."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def rounded(counts: Counts) -> Counts:
    """Return them as they are stored: five digits."""
    return {
        case: {name: float(f"{count:.5g}") for name, count in named.items()}
        for case, named in counts.items()
    }


def read(path: Path) -> dict[str, dict[str, Stored]]:
    """Return what is stored in a file; nothing if there is none."""
    if not path.exists():
        return {}
    cases = tomllib.loads(path.read_text())
    return {
        case: {name: Stored(*pair) for name, pair in named.items()} for case, named in cases.items()
    }


def changes(stored: dict[str, dict[str, Stored]], counts: Counts) -> list[Change]:
    """Return what differs; a count that is stored nowhere is none."""
    return [
        Change(case, name, stored[case][name].now, count)
        for case, named in counts.items()
        for name, count in named.items()
        if name in stored.get(case, {}) and stored[case][name].now != count
    ]


def merged(
    stored: dict[str, dict[str, Stored]], counts: Counts, *, may_rise: bool
) -> dict[str, dict[str, Stored]]:
    """Return what is to be stored: lower counts, new ones and, with `may_rise`, higher ones."""
    result = {case: dict(named) for case, named in stored.items()}
    for case, named in counts.items():
        kept = result.setdefault(case, {})
        for name, count in named.items():
            old = kept.get(name)
            if old is None or count < old.now or may_rise:
                kept[name] = Stored(count, count if old is None else min(old.least, count))
    return result


def note_rises(path: Path, version: str, rises: list[Change], why: str) -> None:
    """Append to a file of rises why these counts rose."""
    with path.open("a", encoding="utf-8") as file:
        for each in rises:
            file.write(
                f'\n[[rise]]\npython = "{version}"\ncount = "{each.case}.{each.name}"\n'
                f"before = {each.before:.12g}\nafter = {each.after:.12g}\n"
                f"why = {json.dumps(why, ensure_ascii=False)}\n"
            )


def unexplained(version: str, stored: dict[str, dict[str, Stored]], rises: list[Rise]) -> list[str]:
    """Return the counts of a version that are above their least, and no rise says why."""
    explained: dict[str, float] = {}
    for rise in rises:
        if rise["python"] == version and rise["why"].strip():
            count = rise["count"]
            explained[count] = max(rise["after"], explained.get(count, 0.0))
    return [
        f"{case}.{name}"
        for case, named in stored.items()
        for name, (now, least) in named.items()
        if now > max(least, explained.get(f"{case}.{name}", 0.0))
    ]


def write(path: Path, stored: dict[str, dict[str, Stored]]) -> None:
    """Write the file of a version of Python."""
    lines = [_HEAD.format(version=path.stem.removeprefix("python-"))]
    for case, named in stored.items():
        lines.append(f"[{case}]\n")
        lines += [f"{name} = [{now:.12g}, {least:.12g}]\n" for name, (now, least) in named.items()]
        lines.append("\n")
    path.write_text("".join(lines).rstrip("\n") + "\n")

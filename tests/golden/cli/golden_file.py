"""Comparing what is with what a file says, and writing such a file anew."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ANEW = "if this was meant to change, write it anew: python -m tests.golden.cli; then read its diff"


def difference(path: Path, shown: str, what: str) -> str:
    """How `shown`, of `what`, differs from the file, for people; empty where it does not."""
    if not path.exists():
        return f"{what} has no golden file {path.relative_to(FOLDER)}; {ANEW}"
    kept = path.read_text(encoding="utf-8")
    if kept == shown:
        return ""
    name = str(path.relative_to(FOLDER))
    lines = unified_diff(
        kept.splitlines(), shown.splitlines(), name, f"{what} says now", lineterm=""
    )
    return "\n".join((f"{what} is no longer what {name} says; {ANEW}", *lines))


def left_over(folder: Path, names: Mapping[str, object]) -> list[str]:
    """The golden files of `folder` that are of nothing there is."""
    return sorted({path.stem for path in folder.iterdir()} - set(names))


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Make `folder` hold `texts`, by name, and no other file."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")

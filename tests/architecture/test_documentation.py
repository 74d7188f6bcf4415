"""What the documents say about the repository is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from scripts.documentation.navigation import GENERATED
from tests.architecture.rules_imports import TABLE
from tests.architecture.source import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
ROW = re.compile(r"\| (?P<name>[a-z]+) \| (?P<allowed>[^|]+) \| [^|]+ \|")
DOCUMENTS = sorted(
    path
    for folder, pattern in ((".", "*.md"), ("docs", "**/*.md"), ("newsfragments", "README.md"))
    for path in (ROOT / folder).glob(pattern)
)
MADE_FOR_THE_SITE = {ROOT / "docs" / "reference" / f"{name}.md" for name in GENERATED}


def broken_links(document: Path) -> list[str]:
    """Return the targets of a document's links to files that are not there."""
    targets = LINK.findall(document.read_text(encoding="utf-8"))
    return [
        target
        for target in targets
        if "://" not in target
        and not (document.parent / target).exists()
        and (document.parent / target).resolve() not in MADE_FOR_THE_SITE
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path):
    assert broken_links(document) == []


def test_a_broken_link_is_found(tmp_path: Path):
    document = tmp_path / "page.md"
    document.write_text("[here](page.md#top) [there](https://example.org) [nowhere](gone.md)")
    assert broken_links(document) == ["gone.md"]


def test_the_table_in_the_architecture_is_the_one_that_is_held():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, table = text.split("| package | may import | holds |")
    rows = {match["name"]: match for match in ROW.finditer(table)}
    told = {
        name: set(match["allowed"].replace("nothing", "").split(", ")) - {""}
        for name, match in rows.items()
    }
    assert told == {name: set(row) for name, row in TABLE.items()}
    there = {path.parent.name for path in (ROOT / "src" / "iriai").glob("*/__init__.py")}
    assert set(told) == there


def folder_tree() -> str:
    """Every folder of the product with what it says it is for, as docs/architecture.md shows it."""
    base = ROOT / "src" / "iriai"
    lines = []
    for path in sorted(base.rglob("__init__.py"))[1:]:
        folder = path.parent.relative_to(base)
        about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        name = f"{'    ' * (len(folder.parts) - 1)}{folder.name}/"
        lines.append(f"{name:<24}{about.splitlines()[0]}")
    return "\n".join(lines)


def test_the_folders_in_the_architecture_are_those_that_are_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("## Folders\n")
    assert rest.split("```")[1].strip("\n") == folder_tree()


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    decisions = [path.name for path in sorted(folder.glob("[0-9]*.md"))]
    assert decisions
    assert [name for name in decisions if f"]({name})" not in index] == []
    assert len({name[:4] for name in decisions}) == len(decisions), "two decisions of one number"

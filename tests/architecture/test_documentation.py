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
STATUS = re.compile(r"^Status: \w+\. Date: 2\d{3}-\d\d-\d\d\.$", re.MULTILINE)
MENTION = re.compile(r"\badr[ /](\d{4}(?:-[a-z-]+\.md)?)", re.IGNORECASE)
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


def decisions() -> dict[str, Path]:
    """The decisions by number."""
    paths = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert len({path.name[:4] for path in paths}) == len(paths), "two decisions of one number"
    return {path.name[:4]: path for path in paths}


def gone_decisions(text: str) -> list[str]:
    """The decisions that a text mentions, by number or file name, and that have no such file."""
    there = set(decisions()) | {path.name for path in decisions().values()}
    return [mention for mention in MENTION.findall(text) if mention not in there]


def test_every_decision_has_a_status_a_date_and_a_place_in_the_index():
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    kept, _, _ = index.partition("## Merged")
    assert decisions()
    for path in decisions().values():
        assert STATUS.search(path.read_text(encoding="utf-8")), path.name
        assert kept.count(f"]({path.name})") == 1, path.name


def test_every_merged_decision_is_listed_once_with_its_new_place():
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    merged = re.findall(r"^\| (\d{4}) \| [^|]+ \| \[", index, re.MULTILINE)
    assert len(merged) == 28
    assert len(set(merged)) == 28
    assert not set(merged) & set(decisions())


def test_every_mention_of_a_decision_leads_to_one():
    folders = ("src", "tests", "benchmarks", "scripts", "docs", "examples", "newsfragments", ".")
    named = [
        path
        for folder in folders
        for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
        if path.suffix in {".py", ".c", ".h", ".md", ".toml"} or path.name == "Makefile"
    ]
    assert ROOT / "pyproject.toml" in named
    texts = {path: path.read_text(encoding="utf-8") for path in named}
    assert sum(len(MENTION.findall(text)) for text in texts.values()) > 40
    gone = {path: gone_decisions(text) for path, text in texts.items()}
    assert {path: numbers for path, numbers in gone.items() if numbers} == {}


def test_a_mention_of_a_merged_decision_is_found():
    text = "AD" + "R 0077, docs/ad" + "r/0006-gone.md and [0006](../ad" + "r/0006-turns.md)"
    assert gone_decisions(text) == ["0077", "0006-gone.md"]

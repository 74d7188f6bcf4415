"""`make docs`: the documentation as a site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from scripts.documentation.navigation import DOCUMENTS, DOORS, GENERATED
from tests.architecture.source import ROOT
from tests.golden.cli.help_pages import command_names
from tests.golden.cli.problem_codes import CODES

BUILD_WAIT_S = 380.0
FROM_ELSEWHERE = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//')


def test_every_guide_has_one_place_in_the_navigation():
    named = [page for pages in DOORS.values() for page in pages]
    assert len(set(named)) == len(named)
    folders = tuple(page for page in named if page.endswith("/"))
    there = (path.relative_to(DOCUMENTS).with_suffix("") for path in DOCUMENTS.rglob("*.md"))
    pages = {str(path) for path in there} - {"index"}
    assert {page for page in pages if not page.startswith(folders)} - set(named) == set()
    assert {f"reference/{name}" for name in GENERATED} <= set(named)


def test_the_site_is_built_without_a_warning_and_needs_nothing_from_elsewhere(tmp_path: Path):
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "scripts.documentation", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BUILD_WAIT_S,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert [str(path) for path, text in pages.items() if FROM_ELSEWHERE.search(text)] == []
    commands = pages[site / "reference" / "commands.html"]
    assert all(f'id="iriai-{"-".join(words)}"' in commands for words in command_names() if words)
    codes = {line.split()[0] for line in CODES.read_text(encoding="utf-8").splitlines()}
    shown = re.findall(
        r'<code[^>]*><span class="pre">([^<]*)</span>', pages[site / "reference" / "errors.html"]
    )
    assert codes - set(shown) == set()

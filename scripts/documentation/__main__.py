"""Build the site: gather docs/ and what is generated from the code, and call Sphinx.

    .venv/bin/python -m scripts.documentation [FOLDER]      (build/site)

Warnings are errors: a link that leads nowhere, a page that is in no navigation.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from sphinx.cmd.build import build_main

from .api_reference import client_reference, policy_reference
from .command_reference import command_reference
from .configuration_reference import configuration_reference
from .error_reference import error_reference
from .navigation import DOCUMENTS, DOORS, GENERATED, ROOT, doors, folder_index

HERE = Path(__file__).resolve().parent
OF_THE_ROOT = ("CHANGELOG.md", "SECURITY.md")
"""Pages that stand beside docs/, since forges look for them there."""
WRITERS: Mapping[str, Callable[[], str]] = {
    "client": client_reference,
    "commands": command_reference,
    "configuration": configuration_reference,
    "errors": error_reference,
    "policies": policy_reference,
}
"""What writes each of the pages of reference/."""
_TO_THE_ROOT = re.compile(rf"\]\((?:\.\./)+({'|'.join(OF_THE_ROOT)})")
_TO_SOURCE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./)+((?:src|examples|benchmarks|tests|newsfragments)/[^)\s]*)\)"
)


def gather(source: Path) -> None:
    """Put all pages of the site into an empty folder, as Sphinx reads them."""
    shutil.copytree(DOCUMENTS, source, dirs_exist_ok=True)
    for name in OF_THE_ROOT:
        text = (ROOT / name).read_text(encoding="utf-8")
        (source / name).write_text(text.replace("](docs/", "]("), encoding="utf-8")
    (source / "reference").mkdir()
    for name in GENERATED:
        (source / "reference" / f"{name}.md").write_text(WRITERS[name](), encoding="utf-8")
    for pages in DOORS.values():
        for folder in (page for page in pages if page.endswith("/")):
            (source / folder / "index.md").write_text(folder_index(folder), encoding="utf-8")
            (source / folder / "README.md").unlink(missing_ok=True)
    for page in source.rglob("*.md"):
        page.write_text(_within_the_site(page, source), encoding="utf-8")
    index = source / "index.md"
    index.write_text(f"{index.read_text(encoding='utf-8')}\n{doors()}", encoding="utf-8")


def _within_the_site(page: Path, source: Path) -> str:
    """The page, with links out of docs/ led to what the site has, or said as a path."""
    up = "../" * (len(page.relative_to(source).parts) - 1)
    text = _TO_THE_ROOT.sub(rf"]({up}\1", page.read_text(encoding="utf-8"))
    text = text.replace("/README.md)", "/index.md)")
    return _TO_SOURCE.sub(_as_path, text)


def _as_path(link: re.Match[str]) -> str:
    text, path = link.groups()
    return f"`{path}`" if path in text else f"{text} (`{path}`)"


def build(site: Path) -> int:
    """Build into `site`; returns Sphinx's exit code."""
    with tempfile.TemporaryDirectory(prefix="iriai-site-") as folder:
        source, doctrees = Path(folder) / "source", Path(folder) / "doctrees"
        source.mkdir()
        gather(source)
        options = ["-q", "-W", "--keep-going", "-j", "auto", "-c", str(HERE), "-d", str(doctrees)]
        code: int = build_main([*options, str(source), str(site)])
        return code


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    code = build(target)
    if code == 0:
        print(target / "index.html")
    raise SystemExit(code)

"""Environments of Python that hold some distributions and no other, of what is installed here."""

from __future__ import annotations

import re
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

import iriai

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(iriai.__file__).parents[1]
"""Where all may read the product: a copy, where nobody but root may enter the checkout."""


def needed_by_iriai() -> list[str]:
    """What `pip install iriai` is told to bring, without any extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def closure(requirements: Iterable[str]) -> set[str]:
    """The names of distributions that these need, themselves included."""
    found: set[str] = set()
    left = list(requirements)
    while left:
        requirement = Requirement(left.pop())
        name = re.sub("[-_.]+", "-", requirement.name).lower()
        is_wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_wanted and name not in found:
            found.add(name)
            left += distribution(name).requires or ()
    return found


def make_environment(place: Path, distributions: Iterable[str]) -> Path:
    """Make an environment of the product's source and these distributions; return its Python."""
    venv.create(place, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = place / "lib" / version / "site-packages"
    for name in distributions:
        for each in _roots(name):
            (packages / each.name).symlink_to(each)
    (packages / "iriai.pth").write_text(f"{SOURCE}\n")
    python = place / "bin" / "python"
    program = place / "bin" / "iriai"
    program.write_text(f"#!{python}\nfrom iriai.cli.main import main\nmain()\n")
    program.chmod(0o755)
    return python


def _roots(name: str) -> Iterator[Path]:
    """The files and folders of a distribution that lie in site-packages itself."""
    there = distribution(name)
    files = there.files or []
    roots = {file.parts[0] for file in files} - {"..", "__pycache__"}
    return (Path(str(there.locate_file(root))).resolve() for root in sorted(roots))

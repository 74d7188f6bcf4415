"""What a daemon imports after it gave up root's privileges may lie where only root may enter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.daemon.test_imports_before_the_drop import with_an_order

pytestmark = pytest.mark.root


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The program and a plug-in."""
    place = tmp_path / "root's" / "library"
    place.mkdir(parents=True)
    shutil.copytree(ROOT / "src" / "iriai", place / "iriai")
    with_an_order(place)
    return place


def run(installed: Path, how: str = "keeps") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.after_the_drop", "nobody", how],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )


def test_below_a_directory_of_roots_alone_it_is_found_when_it_is_needed(installed: Path):
    installed.parent.chmod(0o700)
    done = run(installed)
    assert done.returncode == 0, done.stderr
    where, is_loaded_before = done.stdout.splitlines()
    assert where.startswith(str(installed))
    assert is_loaded_before == "False"


def test_in_a_directory_of_roots_alone_it_is_loaded_before(installed: Path):
    installed.chmod(0o700)
    done = run(installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == "True"


def test_without_either_it_is_not_found(installed: Path):
    installed.parent.chmod(0o700)
    done = run(installed, "leaves")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr

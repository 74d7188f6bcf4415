"""`make test` runs what failed beside others once more, alone, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import run_tests

SETTINGS = """\
[pytest]
addopts = --strict-markers -p xdist
markers =
    serial: alone
    soak: never
"""
LOSES_ONCE = """\
from pathlib import Path
import pytest

@pytest.mark.parametrize("way", ["long [way]::x", "short"])
def test_race(way):
    with Path("runs").open("a") as runs:
        runs.write(way + "\\n")
    assert way == "short" or Path("runs").read_text().count(way) > 1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_good.py").write_text("def test_good():\n    pass\n")
    return tmp_path


def run(project: Path, *words: str) -> tuple[int, str]:
    environment = {name: each for name, each in os.environ.items() if "PYTEST" not in name}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others take most of the time
    command = [sys.executable, run_tests.__file__, "--workers", "2", *words]
    outcome = subprocess.run(
        command, cwd=project, env=environment, text=True, stdout=subprocess.PIPE, check=False
    )
    return outcome.returncode, outcome.stdout


def test_all_that_is_green_runs_once(project: Path):
    (project / "test_alone.py").write_text(
        "import pytest\n@pytest.mark.serial\ndef test_alone(): pass\n"
        "@pytest.mark.soak\ndef test_never(): assert False\n"
    )
    code, words = run(project)
    assert code == 0
    assert "once more" not in words
    assert "alone (" not in words


def test_that_no_test_needs_the_machine_for_itself_is_no_failure(project: Path):
    assert run(project)[0] == 0


def test_one_that_loses_a_race_runs_once_more_alone_and_is_named_last(project: Path):
    (project / "test_race.py").write_text(LOSES_ONCE)
    code, words = run(project)
    assert code == 0
    assert words.endswith(
        "\nFailed beside others, passed alone (1 test):\n  test_race.py::test_race[long [way]::x]\n"
    )
    runs = (project / "runs").read_text().splitlines()
    assert sorted(runs) == ["long [way]::x", "long [way]::x", "short"]


def test_one_that_fails_again_is_red_and_the_other_is_still_named(project: Path):
    (project / "test_race.py").write_text(LOSES_ONCE)
    (project / "test_bad.py").write_text("def test_bad(): assert False\n")
    code, words = run(project)
    assert code == 1
    assert "FAILED test_bad.py::test_bad" in words
    assert words.endswith("passed alone (1 test):\n  test_race.py::test_race[long [way]::x]\n")


def test_a_serial_one_has_its_second_try_too(project: Path):
    (project / "test_race.py").write_text(
        LOSES_ONCE.replace("@pytest", "@pytest.mark.serial\n@pytest", 1)
    )
    code, words = run(project)
    assert code == 0
    assert "passed alone (1 test)" in words


def test_what_ends_a_worker_runs_once_more(project: Path):
    (project / "test_race.py").write_text(
        LOSES_ONCE.replace("    assert ", "    import os\n    if not(").rstrip()
        + "): os._exit(3)\n"
    )
    code, words = run(project)
    assert code == 0
    assert "passed alone (1 test)" in words


def test_where_many_fail_nothing_runs_again(project: Path):
    count = run_tests.REPEATED_MAX + 1
    (project / "test_many.py").write_text(
        "import pytest\nfrom pathlib import Path\n"
        f"@pytest.mark.parametrize('number', range({count}))\n"
        "def test_many(number):\n"
        "    with Path('runs').open('a') as runs:\n        runs.write('x')\n    assert False\n"
    )
    code, words = run(project)
    assert code == 1
    assert f"{count} tests failed, too many to be run once more" in words
    assert len((project / "runs").read_text()) == count


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [("import nothing_of_that_name\n", (), 1), ("", ("--no-such-option",), 4)],
)
def test_what_cannot_run_is_red_at_once(
    project: Path, text: str, words: tuple[str, ...], expected: int
):
    (project / "test_broken.py").write_text(text)
    code, said = run(project, *words)
    assert code == expected
    assert "once more" not in said


def test_options_of_pytest_hold_in_every_pass(project: Path):
    (project / "test_race.py").write_text(LOSES_ONCE)
    assert run(project, "--ignore=test_race.py")[0] == 0
    assert not (project / "runs").exists()


def test_one_that_the_second_try_cannot_find_is_red(project: Path):
    (project / "test_other.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('alone', ['PYTEST_XDIST_WORKER' not in os.environ])\n"
        "def test_other(alone): assert alone\n"
    )
    code, words = run(project)
    assert code != 0
    assert "passed alone" not in words

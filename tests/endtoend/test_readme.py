"""The session of README.md runs as it stands, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endtoend.installation import IRIAI, as_person
from tests.support.assertions import without_assertions
from tests.support.people import TestPerson

PAGE = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SESSION = PAGE.partition("## Try it\n")[2].partition("\n## ")[0]
STEP = re.compile(r"^    \$ (.+)\n((?:    [^$].*\n)*)", re.MULTILINE)
STEPS = [(command, shown.splitlines()) for command, shown in STEP.findall(SESSION)]
"""Each command with the lines that the page shows below it."""
CONFIGURATION = "[machine]\ncpus = 2\n"
"""The page was written on a machine of two."""
WAIT_S = 60.0


def shape(line: str) -> str:
    """A line without its numbers, paths, account and width of columns."""
    for pattern, instead in (
        (r"(?<!\S)/\S+", "PATH"),
        (r"[a-z]\w*/[a-z]\w*", "ACCOUNT"),
        (r"\d+(\.\d+)?", "0"),
        (r" +", " "),
    ):
        line = re.sub(pattern, instead, line)
    return line.strip()


@pytest.fixture
def home(person: TestPerson | None) -> Iterator[Path]:
    """The home of a newcomer, in which nothing runs afterwards."""
    path = Path(tempfile.mkdtemp(prefix="iriai-readme-"))
    state = path / ".local" / "state" / "iriai"
    state.mkdir(parents=True)
    (state / "iriai.toml").write_text(CONFIGURATION)
    (path / "analyse.sh").write_text("#!/bin/sh\nsleep 1\n")
    (path / "analyse.sh").chmod(0o755)
    if person is not None:
        for each in (path, *path.rglob("*")):
            os.chown(each, person.uid, person.gid)
    yield path
    as_them = as_person(person) if person is not None else []
    down = [*as_them, IRIAI, "--state", str(state), "down", "--kill"]
    subprocess.run(down, capture_output=True, timeout=WAIT_S, check=True)
    shutil.rmtree(path, ignore_errors=True)


def test_the_session_runs_as_it_stands(home: Path, person: TestPerson | None):
    as_them = as_person(person) if person is not None else []
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(IRIAI).parent}:{os.environ['PATH']}",
        "COLUMNS": "120",
        **without_assertions(),
    }
    for command, shown in STEPS:
        done = subprocess.run(
            [*as_them, "bash", "-c", command],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        if command != "iriai run -- hostname":
            assert [shape(line) for line in done.stdout.splitlines()] == [*map(shape, shown)]


def test_the_session_is_found_in_the_page():
    assert [command.split()[1] for command, _ in STEPS] == [
        "up",
        "run",
        "submit",
        "submit",
        "jobs",
        "why",
        "wait",
        "logs",
        "cancel",
        "down",
    ]
    assert all(shown for _, shown in STEPS)

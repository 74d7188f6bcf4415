"""The stories of docs/papers.md run as they stand, and show what the page says they show."""

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
from tests.support.people import TestPerson
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"
STORIES = re.findall(
    r"^### (Story \d+): .*?^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
)
WAIT_S = 240.0
NOT_AS_ROOT = {"Story 4"}
SHOWS = {
    "Story 1": (
        r"b1 +up .* 0\.90 ",
        r"-1\.0 +1 +completed +0 +b2 ",
        r" sweep .* running +0/3 +2 ",
        r"\(one-per-machine\)",
        r"It is off-peak: usage is charged 0\.5 times",
        r"charged off-peak: .* at 0\.5",
        r"b2 +unavailable ",
    ),
    "Story 2": (
        r"physics/bob .* (?:9\d|100)\.\d %\n",
        r"for physics/ann, 2 tasks",
        r"biology/eve +3 ",
    ),
    "Story 3": (r"exit code 3", r"\n\w+-2 .* 2\.\ds ", r"\n\w+-1 .* 1\.\ds "),
    "Story 4": (
        r"\na +up +alive .* broker ",
        r" long .* running ",
        r"\nbroker +a\n(.*\n)*broker +[bc]\n",
        r"name +long\n(.*\n)*.*-1\.0 +1 +completed +0 +c ",
        r"name +next\n(.*\n)*.*-2\.0 +1 +completed +0 +c ",
        r"\na +away +dead ",
    ),
    "Story 5": (
        r"\nstate +confirmed\n",
        r"its reservation \w+-r1 to open",
        r"\(reserved-ahead\)",
        r"-1: completed\n",
        r"\nreservation +\w+-r1\n",
        r"-2: completed\n",
        r"commented +policy Simple +chosen by figure 7",
    ),
}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where a story makes its directories; whatever it leaves running is ended."""
    path = Path(tempfile.mkdtemp(prefix="iriai-story-"))
    path.chmod(0o711)
    yield path
    for identity in sorted(path.rglob("state.json"), key=lambda each: -len(each.parts)):
        command = [IRIAI, "--state", str(identity.parent), "down", "--kill"]
        subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False)
    until(lambda: _removed(path), "the end of what still wrote there")


def _removed(path: Path) -> bool:
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


@pytest.mark.soak
@pytest.mark.parametrize(("name", "text"), STORIES, ids=[name for name, _ in STORIES])
def test_a_story_of_the_page_runs_as_it_stands(
    directory: Path, person: TestPerson | None, name: str, text: str
):
    as_them: list[str] = []
    if person is not None and name in NOT_AS_ROOT:
        os.chown(directory, person.uid, person.gid)
        as_them = as_person(person)
    done = subprocess.run(
        [*as_them, "bash", "-euc", text],
        cwd=directory,
        env=os.environ
        | {
            "TMPDIR": str(directory),
            "PATH": f"{Path(IRIAI).parent}:{os.environ['PATH']}",
            "COLUMNS": "160",
        },
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in SHOWS[name]:
        assert re.search(shown, done.stdout), f"no {shown} in:\n{done.stdout}"


def test_every_story_is_known():
    assert [name for name, _ in STORIES] == list(SHOWS)

"""Programs that save themselves: they go on from there, and it counts as no failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iriai.client.client import Client
from iriai.model.owner import OwnerWord
from iriai.wire.owner import SayOwner
from tests.endtoend.installation import PYTHON, Installation, installed
from tests.support.waiting import until

CONFIGURATION = """
[owner]
profile = "desk"
continue = "1s"
vacate = "0s"
"""
COUNTS = """
import signal, sys, time
from pathlib import Path
place, enough, each = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
begun = done = int(place.read_text()) if place.exists() else 0
def save(*_):
    place.write_text(str(done))
    print("from", begun, "to", done, flush=True)
    sys.exit(85)
signal.signal(signal.SIGTERM, save)
Path("ready").touch()
while done < enough:
    time.sleep(0.1)
    done += 1
    if done - begun == each:
        save()
print("from", begun, "to the end", flush=True)
"""
"""Counts to `enough`, and saves itself after `each` of these steps, and when it is asked to end."""


@pytest.fixture
def desk(person) -> Iterator[Installation]:
    with installed(person, CONFIGURATION) as installation:
        says(installation, OwnerWord.AWAY)
        yield installation


def says(desk: Installation, word: OwnerWord) -> None:
    with Client.connect(desk.state) as client:
        client.ask(SayOwner(word))


def counting(desk: Installation, enough: int, each: int) -> str:
    """A job that may not be restarted, and says with 85 that it has saved itself."""
    words = ("-o", "%a", "--no-restart", "--checkpoint-exit", "85", "--")
    done = desk.call("submit", *words, PYTHON, "-c", COUNTS, "saved", str(enough), str(each))
    assert done.returncode == 0, done.stderr
    assert "is of this machine alone" in " ".join(done.stderr.split())
    return done.stdout.strip()


def told(desk: Installation) -> list[str]:
    """What the attempts have printed, in order."""
    outputs = (each for each in sorted(desk.work.iterdir()) if each.name.isdecimal())
    return [each.read_text().strip() for each in outputs]


def test_a_program_that_saves_itself_now_and_then_goes_on_from_there(desk):
    job = counting(desk, 30, 12)
    with desk.client() as client:
        assert [outcome.cause for outcome in client.wait([job])] == ["completed"]
        causes = [row.cause for row in client.show(f"{job}.0").attempts]
    assert sorted(causes) == ["completed", "evicted", "evicted"]
    assert told(desk) == ["from 0 to 12", "from 12 to 24", "from 24 to the end"]
    assert "it has saved itself (exit code 85)" in " ".join(desk.call("story", job).stdout.split())


def test_a_program_that_is_vacated_saves_itself_within_its_grace_and_goes_on_from_there(desk):
    job = counting(desk, 60, 1000)
    with desk.client() as client:
        until((desk.work / "ready").exists, "it to run")
        says(desk, OwnerWord.HERE)
        until((desk.work / "saved").exists, "it to save itself")
        says(desk, OwnerWord.AWAY)
        assert [outcome.cause for outcome in client.wait([job])] == ["completed"]
        rows = {row.cause: row.exit_code for row in client.show(f"{job}.0").attempts}
    assert rows == {"evicted": 85, "completed": 0}
    [first, second] = told(desk)
    assert first.startswith("from 0 to ")
    assert second == f"from {first.removeprefix('from 0 to ')} to the end"


def test_a_program_that_says_so_at_once_has_failed(desk):
    done = desk.call("submit", "--checkpoint-exit", "85", "--", "sh", "-c", "exit 85")
    with desk.client() as client:
        [outcome] = client.wait([done.stdout.strip()])
    assert (outcome.cause, outcome.exit_code) == ("failed", 85)


def test_a_code_that_cannot_mean_it_is_refused(desk):
    for code in ("0", "256"):
        refused = desk.call("submit", "--checkpoint-exit", code, "--", "true")
        assert refused.returncode == 2
        assert "--checkpoint-exit" in refused.stderr

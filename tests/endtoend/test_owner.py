"""A machine whose owner comes and goes: real signs, a real launcher, real tasks."""

from __future__ import annotations

import getpass
import json
import os
import pty
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.client.client import Client
from iriai.model.owner import OwnerWord
from iriai.model.problem import NotAllowed
from iriai.wire.owner import AskOwner, OwnerReport, SayOwner, SensorRow
from iriai.wire.reports import Doctor
from tests.endtoend.installation import IS_ROOT, Installation, installed
from tests.launcher.owner.test_lowering import is_behind
from tests.support.waiting import until

CONFIGURATION = """
[owner]
profile = "desk"
continue = "1s"
vacate = "never"
lower = false
"""
"""In the idle class tasks would do little beside the other tests on this host."""
LOWERED = CONFIGURATION.replace("lower = false", "")
HERE, AWAY = OwnerWord.HERE, OwnerWord.AWAY
GAME = f"game-{os.getpid()}"
PLAYER = (
    CONFIGURATION
    + f"""
programs = ["{GAME}"]
"""
)
QUIET_S = 120.0
"""Other tests on this host have terminals too, at which they type."""


@pytest.fixture
def desk(person) -> Iterator[Installation]:
    with installed(person, CONFIGURATION) as installation:
        yield installation


class Keyboard:
    """A terminal at which the owner types."""

    def __init__(self) -> None:
        self._keys, terminal = pty.openpty()
        self._reader = subprocess.Popen(["cat"], stdin=terminal, stdout=subprocess.DEVNULL)
        os.close(terminal)

    def type(self) -> None:
        os.write(self._keys, b"ls\n")

    def close(self) -> None:
        self._reader.kill()
        self._reader.wait()
        os.close(self._keys)


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    made = Keyboard()
    yield made
    made.close()


def says(desk: Installation, word: OwnerWord | None, *, vacates: bool = False) -> OwnerReport:
    """Who administers the machine says so."""
    with Client.connect(desk.state) as client:
        return client.ask(SayOwner(word, None, vacates))


def states(desk: Installation) -> list[str]:
    with desk.client() as client:
        return [row.state for row in client.ask(AskOwner()).tasks]


def row(desk: Installation, kind: str) -> SensorRow:
    with desk.client() as client:
        return next(each for each in client.ask(AskOwner()).sensors if each.kind == kind)


def begun(desk: Installation, name: str = "begun") -> Path:
    """A task that notes each of its starts, and then that it goes on."""
    place = desk.work / name
    script = f"echo begun >> {place}; while true; do date +%s%N > {place}.now; sleep 0.02; done"
    with desk.client() as client:
        client.submit(desk.draft("sh", "-c", script, output=os.devnull))
    until(place.exists, "the task to begin", wait_s=QUIET_S)
    return place


def stands(place: Path) -> bool:
    now = place.with_name(place.name + ".now")
    before = now.read_text()
    time.sleep(0.3)
    return now.read_text() == before


def goes_on(desk: Installation, place: Path, state: str) -> None:
    """Its task is in no other state, and does something, however late in the idle class."""
    for _ in range(5):
        assert states(desk) == [state]
        time.sleep(0.1)
    until(lambda: not stands(place), "the task to do something")


TELLING = ("show", "why", "story")


def is_told(desk: Installation, words: str, job: str) -> bool:
    """Whether a command says who is there."""
    said = " ".join(desk.call(words, job).stdout.split())
    return "the owner of the machine (its owner typed at a terminal)" in said


def test_a_line_at_a_terminal_suspends_what_runs_and_it_goes_on_later(desk, keyboard):
    place = begun(desk)
    until(lambda: states(desk) == ["runs"], "nobody to type", wait_s=QUIET_S)
    with desk.client() as client:
        [row] = client.jobs()
        # A second after the last line the task may go on: whoever looks types on.
        seen = (
            lambda: states(desk) == ["suspended"],
            lambda: stands(place),
            lambda: client.why(f"{row.id}.0").state == "suspended",
            *(lambda words=words: is_told(desk, words, row.id) for words in TELLING),
        )
        for number, is_seen in enumerate(seen):
            until(lambda see=is_seen: keyboard.type() or see(), f"sign {number} that it gives way")
    until(lambda: states(desk) == ["runs"], "nobody to type", wait_s=QUIET_S)
    assert place.read_text() == "begun\n"


def test_the_owner_s_word_comes_before_what_is_seen(desk, keyboard):
    says(desk, AWAY)
    place = begun(desk)
    keyboard.type()
    goes_on(desk, place, "runs")
    assert says(desk, HERE).why == "its owner said: here"
    until(lambda: stands(place), "the task to give way")
    with desk.client() as client:
        [row] = client.jobs()
        waits = client.why(row.id)
    assert "owner" in str(waits)
    says(desk, AWAY)
    until(lambda: not stands(place), "the task to go on")


def test_here_now_empties_the_machine_and_the_task_runs_again_once(desk):
    says(desk, AWAY)
    place = begun(desk)
    says(desk, HERE, vacates=True)
    until(lambda: states(desk) == [], "the machine to be empty")
    says(desk, AWAY)
    until(lambda: place.read_text() == "begun\n" * 2, "the task to begin again")
    assert states(desk) == ["runs"]


SAVES = """
trap 'echo saved >> {place}; exit 0' TERM
echo "begun $IRIAI_ATTEMPT" >> {place}
while true; do sleep 0.02; done
"""


def test_a_task_that_skips_suspension_ends_with_its_grace_and_is_the_first_again(person):
    with installed(person, f"{CONFIGURATION}[machine]\ncpus = 1\n") as desk:
        says(desk, AWAY)
        place, later = desk.work / "skips", desk.work / "later"
        with desk.client() as client:
            saves = desk.draft("sh", "-c", SAVES.format(place=place), no_suspend=True)
            job = client.submit(saves).id
            client.submit(desk.draft("touch", str(later)))
        until(place.exists, "the task to begin")
        says(desk, HERE)
        until(lambda: states(desk) == [], "the machine to be empty")
        assert place.read_text() == "begun 1\nsaved\n"
        with desk.client() as client:
            until(lambda: client.show(f"{job}.0").attempts, "its end to be stored")
            [first] = client.show(f"{job}.0").attempts
        assert (first.cause, "the owner of the machine uses it" in first.message) == (
            "evicted",
            True,
        )
        says(desk, AWAY)
        until(lambda: place.read_text().endswith("begun 2\n"), "the task to begin again")
        assert not later.exists()


def test_a_launcher_suspends_while_its_daemon_is_away(desk, keyboard):
    place = begun(desk)
    until(lambda: states(desk) == ["runs"], "nobody to type", wait_s=QUIET_S)
    desk.kill("daemon")
    keyboard.type()
    until(lambda: stands(place), "the task to give way")
    until(desk.answers, "another daemon")
    until(lambda: not stands(place), "the task to go on", wait_s=QUIET_S)
    assert place.read_text() == "begun\n"


def test_a_game_suspends_what_runs_until_it_is_over(person):
    with installed(person, PLAYER) as desk:
        game = desk.directory / GAME
        shutil.copy("/bin/sleep", game)
        place = begun(desk)
        until(lambda: states(desk) == ["runs"], "nobody to type", wait_s=QUIET_S)
        playing = subprocess.Popen([game, "600"])
        try:
            until(lambda: states(desk) == ["suspended"], "the task to give way")
            until(lambda: row(desk, "program").holds, "its state")
            assert stands(place)
            time.sleep(3.0)  # longer than the machine is in use after one sign
            assert states(desk) == ["suspended"]
            assert f"{GAME} runs" in desk.call("owner").stdout
            assert "a program runs that its owner named" in desk.call("owner").stdout
        finally:
            playing.kill()
            playing.wait()
        until(lambda: states(desk) == ["runs"], "nobody to play", wait_s=QUIET_S)
        assert place.read_text() == "begun\n"
        assert not row(desk, "program").holds


def test_tasks_of_exempt_users_start_and_go_on_while_the_machine_is_in_use(person):
    name = person.name if person else getpass.getuser()
    with installed(person, f'{CONFIGURATION}exempt = ["{name}"]\n') as desk:
        says(desk, HERE, vacates=True)
        place = begun(desk)
        goes_on(desk, place, "exempt")
        assert states(desk) == ["exempt"]


def test_the_owner_s_word_outlives_the_daemon(desk, keyboard):
    says(desk, AWAY)
    place = begun(desk)
    desk.kill("daemon")
    until(desk.answers, "another daemon")
    until(lambda: states(desk) == ["runs"], "it to know the task")
    keyboard.type()
    goes_on(desk, place, "runs")
    with desk.client() as client:
        assert client.ask(AskOwner()).word == "away"
    assert says(desk, None).word == ""
    desk.kill("daemon")
    until(desk.answers, "a third daemon")
    with desk.client() as client:
        assert client.ask(AskOwner()).word == ""


def test_tasks_are_behind_their_owner_until_they_are_to_end(person):
    with installed(person, LOWERED) as desk:
        says(desk, AWAY)
        place = desk.work / "place"
        script = f"trap '' TERM; echo $$ > {place}.new; mv {place}.new {place}; exec sleep 600"
        with desk.client() as client:
            client.submit(desk.draft("sh", "-c", script, output=os.devnull))
        until(place.exists, "the task to begin", wait_s=QUIET_S)
        pid = int(place.read_text())
        until(lambda: is_behind(pid), "it to be in the idle class")
        with Client.connect(desk.state) as client:  # as who administers the machine
            client.ask(Doctor(measures_owner=True))
            until(lambda: "a busy owner keeps " in str(client.ask(Doctor())), "a measurement")
        with desk.client() as client:
            [row] = client.jobs()
        desk.call("cancel", row.id)
        until(lambda: not is_behind(pid), "it to leave the idle class")


def test_others_may_look_and_not_speak(desk, person):
    with desk.client() as client:
        assert client.ask(AskOwner()).word == ""
        if IS_ROOT:
            with pytest.raises(NotAllowed, match="may not speak for the owner"):
                client.ask(SayOwner(HERE))
            with pytest.raises(NotAllowed, match="may not speak for the owner"):
                client.ask(Doctor(measures_owner=True))
        else:
            assert client.ask(SayOwner(HERE)).word == "here"


def test_the_command_shows_what_a_person_can_read(desk):
    says(desk, AWAY)
    shown = desk.call("owner").stdout
    assert "is not in use, its owner said away" in shown
    assert "After a sign: suspend at once, reclaim never, vacate never, discard never;" in shown
    assert json.loads(desk.call("owner", "--json").stdout)["word"] == "away"
    wrong = desk.call("owner", "gone")
    assert (wrong.returncode, "say here, away or auto" in wrong.stderr) == (2, True)


def test_a_machine_without_a_policy_says_how_to_get_one(iriai):
    iriai.start()
    refused = iriai.call("owner", "here")
    assert (refused.returncode, '[owner] profile = "desk"' in refused.stderr) == (3, True)


def test_what_an_owner_destroys_is_returned_to_its_account(desk):
    says(desk, AWAY)
    begun(desk)
    time.sleep(2.0)
    says(desk, HERE, vacates=True)
    until(lambda: states(desk) == [], "the machine to be empty")

    def returned() -> bool:
        [row] = json.loads(desk.call("shares", "--json").stdout)["rows"]
        return row["returned_s"] > 1.0 and row["usage_s"] < 0.1

    until(returned, "the charge to be returned")
    assert "Back" in desk.call("shares").stdout
    [used] = json.loads(desk.call("usage", "--json").stdout)["rows"]
    assert used["returned_s"] == used["charge_s"] > 1.0

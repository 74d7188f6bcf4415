"""T9l, T10f: what tasks print is bounded and kept by the daemon, and read as what it is."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iriai.model.submission import Interaction
from tests.endtoend.installation import Installation
from tests.support.people import People, TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

ROOT = TestPerson("root", 0, 0, ())


@contextmanager
def running(iriai: Installation, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`iriai run WORDS`, of the usual user."""
    with subprocess.Popen(
        iriai.command("run", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=iriai.work,
        env=iriai.environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_task_that_prints_without_end_is_ended(undisturbed: Installation):
    """T9l: files of what `run` prints grew without bound."""
    words = ("sh", "-c", "head -c 1100M /dev/zero; sleep 600")
    with undisturbed.client() as client:
        job = client.submit(undisturbed.draft(*words, interaction=Interaction.STREAM)).id
        [outcome] = client.wait([job])
    assert outcome.cause == "failed"
    assert "STREAM_BYTES_MAX" in outcome.message


def test_what_run_prints_is_the_daemons_and_not_the_users(undisturbed: Installation):
    """T9l: the files belonged to the user, who could write them after the end."""
    spool = Path(undisturbed.paths.spool)
    owner = os.stat(spool).st_uid
    with running(
        undisturbed,
        "sh",
        "-c",
        "echo one > /dev/stderr; echo two; touch on; until [ -e off ]; do sleep 0.1; done",
    ) as run:
        until((undisturbed.work / "on").exists, "the task")

        def printed() -> dict[Path, os.stat_result]:
            return {path: os.stat(path) for path in spool.iterdir() if path.stat().st_size == 4}

        until(lambda: len(printed()) == 2, "what it prints to be stored")
        files = printed()
        assert {found.st_uid for found in files.values()} == {owner}
        assert all(not found.st_mode & (stat.S_IROTH | stat.S_IWOTH) for found in files.values())
        (undisturbed.work / "off").touch()
        assert run.wait() == 0
    for path in files:
        # The user still reads them, as `logs` does, and nobody else; nobody writes them.
        assert may(undisturbed.person, "test -r", path)
        until(lambda path=path: not may(undisturbed.person, "test -w", path), "the task's end")
    assert undisturbed.call("logs", f"{path.name.partition('.')[0]}").stdout == "two\n"


def test_others_do_not_read_what_run_printed(undisturbed: Installation, people: People):
    """T9l: by its name neither; the directory is passed and not listed."""
    assert undisturbed.call("run", "echo", "secret").stdout == "secret\n"
    for path in Path(undisturbed.paths.spool).iterdir():
        assert not may(people.bob, "test -r", path)


def test_an_operator_does_not_wait_on_a_users_pipe(undisturbed: Installation):
    """T10f: `logs` opened whatever had the name of an output file."""
    job = finished(undisturbed, output="pipe")
    (undisturbed.work / "pipe").unlink()
    os.mkfifo(undisturbed.work / "pipe", 0o666)
    began_s = time.monotonic()
    done = undisturbed.call("logs", job, person=ROOT)
    assert (done.stdout, done.stderr) == ("", "")
    assert time.monotonic() - began_s < 30


def test_an_operator_is_not_led_to_the_file_of_somebody_else(undisturbed: Installation):
    """T10f: nor by a link to what only the operator may read."""
    secret = undisturbed.directory / "secret"
    secret.write_text("of root's\n")
    secret.chmod(0o600)
    job = finished(undisturbed, output="leads")
    (undisturbed.work / "leads").unlink()
    (undisturbed.work / "leads").symlink_to(secret)
    done = undisturbed.call("logs", job, person=ROOT)
    assert "of root's" not in done.stdout
    assert f"not a file of {undisturbed.person.name}" in done.stderr
    # What is the user's is shown, also where a link leads to it.
    (undisturbed.work / "leads").unlink()
    (undisturbed.work / "real").write_text("mine\n")
    os.chown(undisturbed.work / "real", undisturbed.person.uid, -1)
    (undisturbed.work / "leads").symlink_to("real")
    assert undisturbed.call("logs", job, person=ROOT).stdout == "mine\n"


def finished(iriai: Installation, **fields: str) -> str:
    """A job that is over."""
    with iriai.client() as client:
        job = client.submit(iriai.draft("echo", "hello", **fields)).id
        client.wait([job])
    return job


def may(person: TestPerson, test: str, path: Path) -> bool:
    """What the system says to that user."""
    user = ["--reuid", str(person.uid), "--regid", str(person.gid), "--clear-groups"]
    return (
        subprocess.run(
            ["setpriv", *user, "sh", "-c", f'{test} "$0"', str(path)], check=False
        ).returncode
        == 0
    )

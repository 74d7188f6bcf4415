"""T10d: tasks of two users do not meet in /tmp and /dev/shm, nor those of one user."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.wire.reports import Doctor
from tests.endtoend.installation import Installation
from tests.support.people import People, TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

SECRET = f"ann-was-here-{os.getpid()}"
BOTH = f"/tmp/{SECRET} /dev/shm/{SECRET}"
LEAVE = f"echo {SECRET} | tee {BOTH} > /dev/null; chmod 644 {BOTH}"
SEARCH = f"(ls -RA /tmp /dev/shm | grep {SECRET}; cat {BOTH}) 2> /dev/null; true"


@pytest.fixture(scope="module")
def machine(people: People) -> Iterator[Installation]:
    installation = Installation(people.ann)
    installation.configure("[machine]\ncpus = 2\n")
    installation.work.chmod(0o777)
    try:
        yield installation.start()
    finally:
        installation.stop()


def submitted(machine: Installation, person: TestPerson | None, script: str, output: str) -> str:
    with machine.client(person) as client:
        return client.submit(machine.draft("sh", "-c", script, output=output)).id


def end_of(machine: Installation, job: str) -> None:
    with Client.connect(machine.state) as root:
        assert root.wait([job])[0].cause == "completed"


def text_of(machine: Installation, output: str) -> str:
    return (machine.work / output).read_text()


def test_another_user_finds_nothing_in_tmp_and_shared_memory(machine: Installation, people: People):
    """T10d: bob's task looks for what ann's task has in both, while that runs."""
    go = machine.work / "go"
    held = f"{LEAVE}; echo ready; until [ -e {go} ]; do sleep 0.05; done"
    anns = submitted(machine, None, held, "ann-%j")
    until(lambda: any(each.read_text() for each in machine.work.glob("ann-*")), "ann's files")
    try:
        assert not list(Path("/tmp").glob(SECRET)) + list(Path("/dev/shm").glob(SECRET))
        for person, output in ((people.bob, "bob-%j"), (people.ann, "other-%j")):
            end_of(machine, submitted(machine, person, SEARCH, output))
    finally:
        go.touch()
    end_of(machine, anns)
    found = [
        each.read_text() for kind in ("bob", "other") for each in machine.work.glob(f"{kind}-*")
    ]
    assert len(found) == 2
    assert SECRET not in "".join(
        line for text in found for line in text.splitlines() if "No such" not in line
    )


def test_what_a_task_left_is_gone_when_it_has_ended(machine: Installation):
    """T10d: nothing of it is found by the next task of the same user, nor on the machine."""
    end_of(machine, submitted(machine, None, LEAVE, "left"))
    end_of(machine, submitted(machine, None, SEARCH, "found"))
    assert text_of(machine, "found") == ""
    for place in ("/tmp", "/dev/shm"):
        assert not Path(place, SECRET).exists()
    until(lambda: not list(Path("/var/tmp").glob(f"iriai-*/private/*/{SECRET}")), "the removal")


def test_a_directory_below_tmp_stays_where_it_is(machine: Installation):
    """T10d: the working directory of these tests lies below /tmp, and is found there."""
    assert machine.work.is_relative_to("/tmp")
    end_of(machine, submitted(machine, None, "pwd; echo hello > here", "where"))
    assert text_of(machine, "where") == f"{machine.work}\n"
    assert text_of(machine, "here") == "hello\n"


def test_an_interactive_task_has_its_own_too(machine: Installation):
    """T10d: what `iriai run` starts is a task as any other."""
    with tempfile.NamedTemporaryFile(prefix=SECRET, dir="/tmp") as file:
        done = machine.call("run", "--", "ls", "-A", "/tmp")
        assert done.returncode == 0, done.stderr
        assert Path(file.name).name not in done.stdout.split()


def test_nobody_is_led_by_a_link_in_tmp(machine: Installation, people: People):
    """T10d: a link of bob's in the machine's /tmp shows ann's task nothing that ann may not see."""
    link = Path("/tmp", f"link-{SECRET}")
    hidden = machine.directory / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "file").write_text(SECRET)
    link.symlink_to(hidden)
    try:
        script = f"cat {link}/file {hidden}/file; true"
        end_of(machine, submitted(machine, people.bob, script, f"{link.name}.out"))
        assert SECRET not in text_of(machine, f"{link.name}.out").replace(str(link), "")
    finally:
        link.unlink()


def test_doctor_says_how_they_are_kept_apart(machine: Installation):
    """T10d: and in which words."""
    with Client.connect(machine.state) as root:
        rows = [each for each in root.ask(Doctor()).findings if each.subject == "private-tmp"]
    assert [(row.level, row.message.split(":")[0]) for row in rows] == [("ok", "mount namespaces")]

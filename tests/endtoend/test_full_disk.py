"""A full disk under the state directory of a running installation."""

import os

import pytest

from iriai.model.problem import ExitCode
from tests.endtoend.test_bad_input import complaint, up
from tests.support.disk import Disk
from tests.support.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def disk(iriai):
    made = Disk(iriai.state)
    made.mount("16m")
    iriai.configure("[machine]\ncpus = 2\n")
    # It has been up once: the first start of all finds a directory that may hold nothing else.
    iriai.start()
    iriai.stop_processes()
    yield made
    iriai.stop_processes()
    made.unmount()


def test_nothing_is_accepted_and_nothing_is_lost(iriai, disk):
    iriai.start()
    go = iriai.work / "go"
    os.mkfifo(go)
    os.chown(go, iriai.person.uid, iriai.person.gid)
    with iriai.client() as client:
        running = client.submit(iriai.draft("sh", "-c", "read line < go", output=os.devnull)).id
        waiting = client.submit(iriai.draft("true", held=True)).id
        until(lambda: client.show(running).row.state == "running", "the start")
        disk.fill()
        for _ in range(3):
            line = complaint(iriai.call("submit", "--", "true"), ExitCode.REFUSED)
            assert "no space left" in line
        assert "no space left" in iriai.call("status").stdout
        go.write_text("go\n")
        disk.make_room()
        [outcome] = client.wait([running])
        assert outcome.cause == "completed"
        until(lambda: client.status().trouble == (), "the end of the trouble")
        until(lambda: [row.id for row in client.jobs()] == [waiting], "the end of all others")
        assert not list(iriai.work.glob("iriai-*")), "a refused job has run"
        assert iriai.call("run", "--", "echo", "goes on").stdout == "goes on\n"
        assert client.show(waiting).row.state == "held"


def test_a_hold_that_cannot_be_stored_says_so_and_takes_effect_later(iriai, disk):
    iriai.start()
    with iriai.client() as client:
        client.submit(iriai.draft("sleep", "1000", cpus=2, output=os.devnull))
        waiting = client.submit(iriai.draft("true", output=os.devnull)).id
        disk.fill()
        line = complaint(iriai.call("hold", waiting), ExitCode.REFUSED)
        assert "takes effect once it can be stored" in line
        disk.make_room()
        until(lambda: client.status().trouble == (), "the end of the trouble")
        assert client.show(waiting).row.state == "held"


def test_up_on_a_full_disk(iriai, disk):
    disk.fill()
    assert "no space left" in complaint(up(iriai), ExitCode.REFUSED)
    disk.make_room()
    assert up(iriai).returncode == 0

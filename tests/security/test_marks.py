"""T7: without control groups, whose a process is depends on its user, not on what it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iriai.launcher.contract.messages import SampleAll
from iriai.model.state import EndCause
from tests.launcher.harness import PYTHON, Machine, Variant, attempt, is_running, launch, until
from tests.support.people import People

pytestmark = pytest.mark.root

HOG = """
import os, time
held = bytearray(200 << 20)
with open("pid", "w") as file:
    print(os.getpid(), file=file)
time.sleep(600)
"""
LEAVE_ONE = """
import os, sys, time
mark, hog = sys.argv[1:]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        environment = os.environ | {"IRIAI_MARK": mark}
        os.execve(sys.executable, [sys.executable, "-c", hog], environment)
    os._exit(0)
os.wait()
while not os.path.exists("go"):
    time.sleep(0.02)
"""
"""A task with a process that leaves its session and has the mark of another's task."""


@pytest.fixture
def machine(people: People) -> Iterator[Machine]:
    made = Machine(Variant("process-trees", isolation="none"), people.ann.name)
    yield made.start()
    made.close()


def test_a_process_with_the_mark_of_anothers_task_stays_its_users(machine: Machine, people: People):
    """T7: it was counted, and ended, as that other's."""
    link = machine.attach()
    victim, thief = attempt(1), attempt(2)
    folder = machine.new_folder()
    launch(
        link,
        machine.spec("sleep", "600", user=people.bob.name, working_directory="/", output=""),
        victim,
    )
    link.pid_of(victim)
    mark = f"{machine.mark}/{victim}"
    words = (PYTHON, "-c", LEAVE_ONE, mark, HOG)
    launch(link, machine.spec(*words, working_directory=str(folder)), thief)
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().endswith("\n"), "pid")
    pid = int((folder / "pid").read_text())
    link.send(SampleAll())
    link.until(lambda: link.sampled, "what is used")
    used = dict(link.sampled[-1].samples)
    assert used[victim].memory_peak_bytes < 100 << 20
    assert used[thief].memory_peak_bytes > 150 << 20
    (folder / "go").touch()
    end = link.exit_of(thief)
    assert end.cause is EndCause.COMPLETED
    assert not is_running(pid)  # with the task whose it was
    assert is_running(link.pid_of(victim))

"""The limit of disk: the task ends, with what it took; its neighbours go on."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from iriai.launcher.contract.messages import Attached, Terminate
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks import disk_limits
from iriai.launcher.tasks.disk_limits import STUCK_S, DiskLimits, Walker, WalkOrder
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.system.clock import steady_s
from tests.launcher.conftest import ORDINARY, PRIVILEGED, lab_of, machines
from tests.launcher.harness import Lab, Machine, until

MIB = 1 << 20
WRITE = """
import os, time
os.chdir(os.environ["TMPDIR"])
os.makedirs("a/b")
for number in range(%d):
    open(f"a/b/{number}", "wb").write(b"x" * 1048576)
print("written", flush=True)
time.sleep(%g)
"""


def limited(disk_bytes: int) -> Resources:
    return Resources(named=(("disk", disk_bytes),))


disk_machine = machines([*PRIVILEGED[:1], *ORDINARY[:1]], is_shared=True)


@pytest.fixture
def disk_lab(disk_machine: Machine) -> Iterator[Lab]:
    yield from lab_of(disk_machine)


def test_who_writes_too_much_is_ended_and_the_neighbour_is_not(disk_lab: Lab):
    lab = disk_lab
    neighbour = lab.launch(lab.python(WRITE % (2, 600), resources=limited(8 * MIB)))
    end = lab.end_of(lab.python(WRITE % (12, 600), resources=limited(8 * MIB)))
    assert end.cause is EndCause.DISK_LIMIT
    assert end.message.startswith("disk limit of 8M exceeded: peak 1")
    lab.link.send(Terminate((neighbour,), EndCause.CANCELLED, 0.0))
    assert lab.link.exit_of(neighbour).cause is EndCause.CANCELLED


def test_who_stays_below_is_left_alone(disk_lab: Lab):
    end = disk_lab.end_of(disk_lab.python(WRITE % (3, 3), resources=limited(8 * MIB)))
    assert (end.cause, end.message) == (EndCause.COMPLETED, "")


def test_the_script_counts(disk_lab: Lab):
    lab = disk_lab
    script = b"#!/bin/sh\nsleep 600\n#" + b"x" * 3 * MIB
    end = lab.end_of(lab.spec(resources=limited(2 * MIB)), script=script)
    assert end.cause is EndCause.DISK_LIMIT


def test_who_nests_directories_without_end_is_ended(disk_lab: Lab):
    text = """
import os, time
os.chdir(os.environ["TMPDIR"])
for _ in range(300):
    os.mkdir("d"); os.chdir("d")
time.sleep(600)
"""
    end = disk_lab.end_of(disk_lab.python(text, resources=limited(100 * MIB)))
    assert end.cause is EndCause.DISK_LIMIT
    assert end.message == ("its files cannot be counted: directories are nested deeper than 200")


def test_the_mechanism_is_named(disk_lab: Lab):
    attached: Attached = disk_lab.link.attach()
    row = next(each for each in attached.enforcement if each.limit == "disk")
    assert row.by in ("project quota", "walks every 2 s")
    assert (row.by == "project quota") == (not row.note.startswith("no project quota in "))


class Subject:
    """As much of a task as a walk needs."""

    def __init__(self, path: Path, disk_bytes: int = 1 << 40) -> None:
        self.is_over = False
        self.script_bytes = 0
        self.kill_at_s = self.quota = None
        self.spec = SimpleNamespace(resources=limited(disk_bytes))
        self.scratch = SimpleNamespace(fd=os.open(path, os.O_RDONLY))


def test_a_file_system_that_does_not_answer_keeps_no_other_walk_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    walker, answers = Walker(), threading.Event()
    stuck, other = WalkOrder(Subject(tmp_path)), WalkOrder(Subject(tmp_path))
    threads: list[threading.Thread] = []

    def go_on() -> bool:
        threads.append(threading.current_thread())
        return not answers.wait()

    monkeypatch.setattr(stuck.walk, "go_on", go_on)
    walker.add(stuck)
    walker.add(other)
    assert walker.give_up_stuck(steady_s() + STUCK_S / 2) is None
    found: list[Subject] = []

    def given_up() -> bool:
        task = walker.give_up_stuck(steady_s() + STUCK_S)
        found.extend([] if task is None else [task])
        return bool(found)

    until(given_up, "the walk that does not go on is given up")
    assert found == [stuck.task]
    done: list[WalkOrder] = []
    until(lambda: done.extend(walker.drain()) or done, "the other one")
    assert [(each.task, each.problem) for each in done] == [(other.task, "")]
    answers.set()
    until(lambda: not threads[0].is_alive(), "its thread ends")
    assert walker.drain() == []
    assert stuck.walk._levels == []  # it keeps nothing open


def test_a_task_alone_is_ended_whenever_its_file_system_ceased_to_answer(tmp_path, monkeypatch):
    begun, answers = threading.Event(), threading.Event()
    monkeypatch.setattr(disk_limits.DiskWalk, "go_on", lambda _: begun.set() or answers.wait())
    timers, ended = Timers(), list[object]()
    tasks = SimpleNamespace(end=lambda task, *_: ended.append(task))
    limits = DiskLimits(tasks, timers, lambda *_: None)
    task, now_s = Subject(tmp_path), steady_s()
    limits.begin(task, now_s - STUCK_S)
    timers.run_due(now_s - STUCK_S / 2)  # its walk was asked for long before it came to this part
    begun.wait()
    timers.run_due(now_s + STUCK_S * 0.6)
    assert ended == []
    timers.run_due(now_s + STUCK_S * 1.1)
    assert ended == [task]
    answers.set()


def test_walks_take_turns(tmp_path: Path):
    large, small = tmp_path / "large", tmp_path / "small"
    for path, files in ((large, 20_000), (small, 1)):
        path.mkdir()
        for number in range(files):
            (path / str(number)).touch()
    walker, orders = Walker(), [WalkOrder(Subject(large)), WalkOrder(Subject(small))]
    for each in orders:
        walker.add(each)
    done: list[WalkOrder] = []
    until(lambda: done.extend(walker.drain()) or len(done) == 2, "both")
    assert done == orders[::-1]
    assert [each.walk.files for each in done] == [1, 20_000]


def test_a_walk_ends_where_too_much_was_found(tmp_path: Path):
    for number in range(20_000):
        (tmp_path / str(number)).write_bytes(b"x")
    order = WalkOrder(Subject(tmp_path, 4 * MIB))
    while not order.go_on():
        pass
    assert order.walk.used_bytes > 4 * MIB
    assert order.walk.files < 20_000


def test_a_walk_of_a_task_that_is_over_is_given_up(tmp_path: Path):
    order = WalkOrder(Subject(tmp_path))
    order.task.is_over = True
    assert order.go_on()
    assert disk_limits.WALK_PART < 1

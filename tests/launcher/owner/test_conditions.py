"""Conditions of a real machine: a launcher, its process with the sensors, and programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iriai.launcher.containment.cgroups.hierarchy import find_places
from iriai.launcher.owner.polled.processor_use import GroupUse, OwnUse, TreeUse
from iriai.model.ids import AttemptId
from iriai.model.owner import SensorSettings, SensorState, SignKind
from tests.launcher.harness import until
from tests.launcher.owner.used import OWNER, UsedLab, sensors_of

GAME = f"iriai-game-{os.getpid()}"
"""Longer than what the kernel keeps of a name."""
PROGRAM, CPU = SignKind.PROGRAM, SignKind.CPU
WANTED = SensorSettings(programs=(GAME,))


def installed(folder: Path) -> Path:
    path = folder / GAME
    shutil.copy("/bin/sleep", path)
    path.chmod(0o755)
    return path


@contextmanager
def played(path: Path) -> Iterator[None]:
    """The owner starts a program, and ends it."""
    process = subprocess.Popen([path, "600"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def watch(used: UsedLab, conditions: SensorSettings, *exempt: AttemptId) -> None:
    used.link.watch_owner(*exempt, conditions=conditions)
    used.await_sign(SignKind.START)
    kinds = conditions.kinds
    used.link.until(
        lambda: (
            [each.kind for each in used.seen.sensors if each.works][-len(kinds) :] == list(kinds)
        ),
        "the sensors",
    )
    release(used, conditions, *exempt)


def release(used: UsedLab, conditions: SensorSettings, *exempt: AttemptId) -> None:
    used.link.watch_owner(*exempt, signs=used.seen.signs, are_over=True, conditions=conditions)


def state_of(used: UsedLab, kind: SignKind) -> SensorState | None:
    return next((each for each in used.seen.sensors if each.kind is kind), None)


def test_a_program_of_the_owner_s_suspends_tasks_while_it_runs(plain_used: UsedLab):
    used = plain_used
    path = installed(used.folder)
    task = used.begin()
    used.runs()
    watch(used, WANTED)
    used.told(task)
    with played(path):
        used.await_sign(PROGRAM, used.seen.signs)
        used.told(task, OWNER)
        used.stands()
        state = state_of(used, PROGRAM)
        assert state is not None
        used.link.until(lambda: state_of(used, PROGRAM).holds, "its state")
        assert GAME in state_of(used, PROGRAM).note
    used.link.until(lambda: not state_of(used, PROGRAM).holds, "its end")
    release(used, WANTED)
    used.told(task)
    used.runs()
    used.cancel(task)


def test_the_same_program_in_a_task_is_no_sign(plain_used: UsedLab):
    used = plain_used
    path = installed(used.folder)
    watch(used, WANTED)
    task = used.launch(used.spec(str(path), "600", output=""))
    used.link.pid_of(task)
    time.sleep(3.0)
    used.machine.wait_until_read(used.link)
    assert not any(each.kind is PROGRAM for each in used.seen.last)
    assert not state_of(used, PROGRAM).holds
    used.cancel(task)


def test_what_is_watched_follows_the_order_without_another_process(plain_used: UsedLab):
    used = plain_used
    used.watch()
    [process] = sensors_of(used.machine)
    assert state_of(used, PROGRAM) is None
    watch(used, WANTED)
    assert sensors_of(used.machine) == [process]
    used.watch()
    used.link.until(lambda: state_of(used, PROGRAM) is None, "the end of its sensor")
    assert sensors_of(used.machine) == [process]


def test_what_tasks_use_is_measured_alike_by_their_group_and_by_their_tree(used: UsedLab):
    """On whatever machine this is: with control groups of version 1 or 2, or none."""
    task = used.begin()
    used.runs()
    assert used.machine.process is not None
    launcher = used.machine.process.pid
    ways: list[OwnUse] = [TreeUse(launcher), *groups_above(used.link.pid_of(task))]
    before = [use_of(each) for each in ways]
    time.sleep(2.0)
    used_s = [use_of(each) - begin_s for each, begin_s in zip(ways, before, strict=True)]
    assert min(used_s) > 0.1
    assert max(used_s) <= min(used_s) * 1.2 + 0.1
    used.cancel(task)


def use_of(own: OwnUse) -> float:
    for _ in own.read():
        pass
    return own.total_s


def groups_above(pid: int) -> Iterator[GroupUse]:
    """The parent of the group of a task, where its launcher makes any."""
    mounts, own = Path("/proc/self/mountinfo").read_text(), Path(f"/proc/{pid}/cgroup").read_text()
    for controller in ("cpuacct", "unified"):
        place = find_places(mounts, own, lambda _: "").get(controller)
        if place is not None and "/iriai-" in place.directory:
            yield GroupUse(str(Path(place.directory).parent), place.version)


def test_the_launcher_says_what_its_tasks_use(plain_used: UsedLab):
    used = plain_used
    task = used.begin()
    watch(used, SensorSettings(foreign_cpus_max=1000.0))
    used.link.until(lambda: "others use" in state_of(used, CPU).note, "a measurement")
    assert not state_of(used, CPU).holds
    used.cancel(task)


def test_a_process_that_is_started_again_watches_the_same(plain_used: UsedLab):
    used = plain_used
    path = installed(used.folder)
    task = used.begin()
    watch(used, WANTED)
    [process] = sensors_of(used.machine)
    os.kill(process, 9)
    until(lambda: sensors_of(used.machine) not in ([], [process]), "another one")
    with played(path):
        used.await_sign(PROGRAM, used.seen.signs)
    used.cancel(task)

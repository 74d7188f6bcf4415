"""The memory of what stands is written to swap, so that the owner has it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.swap_file import swap_file

from iriai.launcher.containment.cgroups.controllers import MemoryV2
from iriai.launcher.containment.paging import GroupMemory, ProcessMemory
from iriai.model.ids import AttemptId
from iriai.system.procfs import sum_of
from tests.launcher.harness import until
from tests.launcher.owner.used import OWNER, UsedLab

MIB = 1 << 20
HELD = 48 * MIB
HOLDS = f"""
import hashlib, os, time
held = bytearray(os.urandom({HELD}))
digest = hashlib.sha256(held).hexdigest()
while True:
    for _ in range(20):
        open("tick", "a").write(".")
        time.sleep(0.01)
    open("new", "w").write(str(hashlib.sha256(held).hexdigest() == digest))
    os.rename("new", "same")
"""
pytestmark = [pytest.mark.root, pytest.mark.long]


@pytest.fixture
def swap() -> Iterator[None]:
    with swap_file(2 * HELD):
        yield


def held_bytes(used: UsedLab, attempt: AttemptId) -> int:
    """The memory of the task's main process."""
    return sum_of([used.link.pid_of(attempt)])[1]


def test_the_memory_of_what_stands_is_given_back_and_the_task_goes_on_with_it(
    used: UsedLab, swap: None
):
    task = used.launch(used.python(HOLDS, output=""))
    until((used.folder / "same").exists, "the task to hold its memory")
    used.watch()
    used.use()
    used.told(task, OWNER)
    assert held_bytes(used, task) > HELD
    used.link.watch_owner(signs=0, reclaimed=(task,))
    if used.machine.variant.is_privileged:
        until(lambda: held_bytes(used, task) < HELD / 4, "its memory to be given back")
    else:
        until(lambda: "stays with it" in used.machine.log.read_text(), "the log to say so")
    (used.folder / "same").unlink()
    used.release()
    used.told(task)
    until((used.folder / "same").exists, "the task to go on")
    until(lambda: (used.folder / "same").read_text() == "True", "the same memory")
    used.cancel(task)


def test_a_task_that_runs_keeps_its_memory_whatever_is_ordered(used: UsedLab, swap: None):
    task = used.launch(used.python(HOLDS, output=""))
    until((used.folder / "same").exists, "the task to hold its memory")
    used.watch()
    used.link.watch_owner(reclaimed=(task, AttemptId("ume", 7, 0, 1)))
    used.machine.wait_until_read(used.link)
    assert held_bytes(used, task) > HELD
    used.cancel(task)


def test_a_version_2_group_gets_the_right_to_swap_and_loses_it(tmp_path: Path):
    for name in ("memory.oom.group", "memory.peak", "memory.events", "memory.max"):
        (tmp_path / name).write_text("0\n")
    for name in ("memory.swap.max", "memory.reclaim"):
        (tmp_path / name).touch()
    memory = MemoryV2(str(tmp_path))
    memory.set_limit(MIB)
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    asked = iter([True, False])
    GroupMemory(memory.allow_swap()).write_out(lambda: next(asked))
    assert (tmp_path / "memory.swap.max").read_text().startswith("max")
    assert (tmp_path / "memory.reclaim").read_text() == str(64 * MIB)
    memory.reset()
    assert (tmp_path / "memory.swap.max").read_text().startswith("0")
    memory.close()


def test_a_process_that_has_ended_is_left_out_and_no_other_is_taken_for_it():
    with subprocess.Popen(["sleep", "60"]) as process:
        memory = ProcessMemory([process.pid, 2**22 + 1])
        process.kill()
    held = len(os.listdir("/proc/self/fd"))
    memory.write_out(lambda: True)
    assert len(os.listdir("/proc/self/fd")) == held - 1

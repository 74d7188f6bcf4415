"""A group that leaves the idle class as in version 2, where processes change all their groups.

The kernel may have no controller of processors in version 2; what is moved, counted and ended does
not depend on it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from iriai.launcher.containment.cgroups.choose import choose
from iriai.launcher.containment.cgroups.lowered_group import LoweredGroup, make_lowered
from iriai.launcher.containment.cgroups.pool import Pool
from iriai.launcher.containment.container import Background, Limits
from tests.launcher.harness import until

pytestmark = pytest.mark.root
FORKS = """
import os, time
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.001)
"""


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Groups of version 2 in which all is moved."""
    pool = choose(f"iriai-test-{os.getpid()}", "v2").containers
    assert isinstance(pool, Pool)
    [usual] = pool.parents
    background = Background(("b=",), "idle", usual=usual, idle=f"{usual}-idle")
    os.mkdir(background.idle)
    pool.lower(background, partial(make_lowered, pool, background))
    yield pool
    pool.close()
    assert not Path(background.idle).exists()
    assert not Path(usual).exists()


@pytest.fixture
def group(pool: Pool) -> Iterator[LoweredGroup]:
    group = pool.acquire(is_lowered=True)
    assert isinstance(group, LoweredGroup)
    group.prepare(Limits(1, 0, 0))
    yield group
    while not group.is_empty():
        group.kill()
    pool.release(group)


def begin(group: LoweredGroup, *words: str) -> subprocess.Popen[bytes]:
    files = [each.removeprefix("g=") for each in group.joins if each.startswith("g=")]
    joins = "".join(f"echo $$ > {file}; " for file in files)
    command = ["sh", "-c", f'{joins} exec "$@"', "sh", *words]
    task = subprocess.Popen(command, start_new_session=True)
    until(lambda: "-idle/" in place_of(task.pid), "its joining")
    return task


def place_of(pid: int) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line.removeprefix("0::") for line in lines if line.startswith("0::"))


def test_all_move_and_are_counted_together(group: LoweredGroup):
    tasks = [begin(group, "sh", "-c", "while :; do :; done") for _ in range(5)]
    pids = [each.pid for each in tasks]
    assert all("-idle/" in place_of(pid) for pid in pids)
    until(lambda: (group.cpu_s() or 0.0) > 0.2, "some work")
    before_s = group.cpu_s()
    group.leave_idle(())
    assert not any("-idle/" in place_of(pid) for pid in pids)
    assert sorted(group.processes()) == sorted(pids)
    assert (group.cpu_s() or 0.0) >= (before_s or 0.0)
    until(lambda: (group.cpu_s() or 0.0) > (before_s or 0.0) + 0.1, "its further work")
    assert not group.is_empty()
    group.kill()
    for each in tasks:
        assert each.wait() == -signal.SIGKILL
    until(group.is_empty, "its end")


def test_what_is_frozen_goes_on_outside(group: LoweredGroup):
    task = begin(group, "sleep", "600")
    assert group.freeze((), 0.0)
    until(lambda: group.is_frozen((), 0.0), "its standing")
    group.leave_idle(())
    group.thaw((), 0.0)
    task.terminate()
    assert task.wait() == -signal.SIGTERM


def test_what_forks_all_the_time_leaves(group: LoweredGroup):
    task = begin(group, sys.executable, "-c", FORKS)
    group.leave_idle((task.pid,))
    assert all("-idle/" not in place_of(pid) for pid in group.processes() if _lives(pid))
    task.wait()


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}/cgroup").exists()


def test_the_next_task_is_in_the_idle_class_again(pool: Pool):
    group = pool.acquire(is_lowered=True)
    first = group.joins
    group.leave_idle(())
    assert group.joins != first
    assert not any("-idle" in each or each == "b=" for each in group.joins)
    pool.release(group)
    again = pool.acquire(is_lowered=True)
    assert (again, again.joins, again.is_lowered) == (group, first, True)
    other = pool.acquire()
    assert not other.is_lowered
    assert not any("-idle" in each for each in other.joins)
    for each in (again, other):
        pool.release(each)

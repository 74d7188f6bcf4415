"""Tasks that take turns, in each way to freeze: by a switching process, and by signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import Terminate
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.model.time_slices import Cycle
from iriai.system.clock import steady_s
from iriai.system.procfs import all_processes
from tests.launcher.harness import WAIT_S, Lab, launch, until

USER, OWNER = SuspendReason.USER, SuspendReason.OWNER
NOTES = """
import os, sys, time
name = sys.argv[1] if len(sys.argv) > 1 else "notes"
out = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(out, b"%.6f\\n" % time.clock_gettime(time.CLOCK_BOOTTIME))
    time.sleep(0.002)
"""
"""Notes the steady time each 2 ms."""
QUANTUM_S, SHORT_S = 0.25, 0.1
OUT_PART_MAX = 0.3
"""Loosely: on a busy machine a switch by signals is late. A task that takes no turns is at 0.5."""


def notes(lab: Lab, name: str) -> list[float]:
    path = lab.folder / name
    return [float(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


@pytest.fixture
def turning_lab(freezing_lab: Lab) -> Iterator[Lab]:
    """A launcher whose tasks are ended, and take no turns any more, when a test is over."""
    yield freezing_lab
    link = freezing_lab.link
    link.set_cycle({}, rows=0)
    left = tuple(each for each in link.spawned if each not in link.exits)
    link.send(Terminate(left, EndCause.CANCELLED, 0.0))
    for each in left:
        link.exit_of(each)


def switcher_of(lab: Lab) -> list[int]:
    """The process that switches for this launcher, if there is one."""
    assert lab.machine.process is not None
    launcher = lab.machine.process.pid
    children = [each.pid for each in all_processes() if each.parent == launcher and each.is_live]
    words = "iriai.launcher.slices.switcher"
    return [pid for pid in children if words in Path(f"/proc/{pid}/cmdline").read_text()]


def never(lab: Lab, *tasks: AttemptId) -> None:
    """Give them no turn."""
    lab.link.set_cycle(dict.fromkeys(tasks, 0), quantum_s=SHORT_S)


def noting(lab: Lab, name: str, **more: object):
    """Start a task that notes the time."""
    return lab.launch(lab.python(NOTES.replace('"notes"', repr(name)), output="", **more))


def out_of_turn(moments: list[float], cycle: Cycle, mask: int, since_s: float) -> float:
    """The part of these moments that are not of its turn."""
    counted = [each for each in moments if each > since_s]
    assert counted, "it noted nothing"
    return sum(not cycle.is_turn(mask, each) for each in counted) / len(counted)


def has_noted(lab: Lab, name: str, since_s: float) -> bool:
    return any(each > since_s for each in notes(lab, name))


def begin(lab: Lab, *names: str, **more: object):
    """Start tasks that note the time, and see them at it."""
    tasks = [noting(lab, name, **more) for name in names]
    until(lambda: all(notes(lab, name) for name in names), "their first words")
    return tasks


def after(lab: Lab, since_s: float, seconds: float, *names: str) -> None:
    """Wait until each has noted something so much later."""
    until(lambda: all(has_noted(lab, name, since_s + seconds) for name in names), "their turns")


def cancel(lab: Lab, task, grace_s: float = 0.0):
    lab.link.send(Terminate((task,), EndCause.CANCELLED, grace_s))
    return lab.link.exit_of(task)


def stands(lab: Lab, name: str) -> bool:
    """Whether it notes nothing for a while."""
    before = len(notes(lab, name))
    time.sleep(3 * SHORT_S)
    return len(notes(lab, name)) == before


# --- turns ---------------------------------------------------------------------------------------


def test_two_tasks_take_turns_and_both_get_on(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=QUANTUM_S)
    since_s = steady_s() + 1.0
    after(lab, since_s, 6 * QUANTUM_S, "one", "two")
    cycle = Cycle(QUANTUM_S, 2, row_0_s)
    for name, mask in (("one", 1), ("two", 2)):
        moments = notes(lab, name)
        assert out_of_turn(moments, cycle, mask, since_s) < OUT_PART_MAX
        turns = {cycle.slice_at(each) for each in moments if each > since_s}
        assert len([each for each in turns if mask >> each % 2 & 1]) >= 3
    assert lab.link.frozen == []  # whose turn it is is nobody's reason


def test_who_is_not_named_runs_all_the_time(turning_lab: Lab):
    lab = turning_lab
    _, without = begin(lab, "always", "never")
    lab.link.set_cycle({without: 0}, quantum_s=SHORT_S)
    lab.machine.wait_until_read(lab.link)
    assert stands(lab, "never")
    after(lab, steady_s(), 3 * SHORT_S, "always")


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_without_turns_everybody_goes_on(turning_lab: Lab, rows: int):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    lab.link.set_cycle({task: 0}, quantum_s=SHORT_S)
    lab.machine.wait_until_read(lab.link)
    assert stands(lab, "notes")
    named = {task: 0} if rows < 2 else {}
    lab.link.set_cycle(named, quantum_s=SHORT_S, rows=rows)
    after(lab, steady_s(), 0.0, "notes")
    until(lambda: not switcher_of(lab) or rows == 2, "the end of the process that switches")


def test_what_is_not_newer_changes_nothing(turning_lab: Lab):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    last = int(steady_s() * 1e6)
    lab.link.set_cycle({task: 0}, number=last)
    for number in (last, last - 1, 5, 1):
        lab.link.set_cycle({}, rows=0, number=number)
    lab.machine.wait_until_read(lab.link)
    assert stands(lab, "notes")


# --- starts and ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_first_named", [True, False], ids=["named-first", "named-last"])
def test_what_starts_out_of_its_turn_executes_nothing(turning_lab: Lab, is_first_named: bool):
    lab = turning_lab
    task = lab.new_attempt()
    start = partial(launch, lab.link, lab.python(NOTES, output=""), task)
    if is_first_named:
        never(lab, task)
        start()
    else:
        start()
        until(lambda: notes(lab, "notes"), "its first words")
        never(lab, task)
    lab.link.pid_of(task)
    if is_first_named:
        time.sleep(0.3)
        assert notes(lab, "notes") == []
    else:
        lab.machine.wait_until_read(lab.link)
        assert stands(lab, "notes")
    lab.link.set_cycle({task: 3}, quantum_s=SHORT_S)
    after(lab, steady_s(), 0.0, "notes")


@pytest.mark.parametrize("grace_s", [0.0, 30.0], ids=["killed", "asked"])
def test_the_end_outranks_the_turn(turning_lab: Lab, grace_s: float):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    never(lab, task)
    asked_s = time.monotonic()
    end = cancel(lab, task, grace_s)
    assert (end.cause, end.signal) == (EndCause.CANCELLED, 9 if grace_s == 0.0 else 15)
    assert time.monotonic() - asked_s < 10.0
    lab.link.set_cycle({task: 2}, quantum_s=SHORT_S)  # it is over, and nobody is harmed
    assert lab.run("true").cause is EndCause.COMPLETED


def test_the_group_of_one_that_ended_serves_the_next(turning_lab: Lab):
    lab = turning_lab
    tasks = begin(lab, *(f"n{number}" for number in range(4)))
    never(lab, *tasks)
    for task in tasks:
        cancel(lab, task)
    for _ in range(6):
        assert lab.run("true").cause is EndCause.COMPLETED


# --- reasons -------------------------------------------------------------------------------------


def test_reasons_and_turns_together(turning_lab: Lab):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    lab.link.set_cycle({task: 1}, quantum_s=SHORT_S)
    after(lab, steady_s(), 2 * SHORT_S, "notes")
    state = lab.link.freeze(task, USER)
    assert state.is_complete
    assert stands(lab, "notes")
    thawed = lab.link.thaw(task)
    assert thawed.frozen_s == pytest.approx(thawed.changed_s - state.changed_s)
    row_0_s = lab.link.set_cycle({task: 1}, quantum_s=SHORT_S)
    since_s = steady_s() + 1.0
    after(lab, since_s, 4 * SHORT_S, "notes")
    cycle = Cycle(SHORT_S, 2, row_0_s)
    assert out_of_turn(notes(lab, "notes"), cycle, 1, since_s) < OUT_PART_MAX


def test_the_last_reason_is_taken_out_of_turn_and_it_stands(turning_lab: Lab):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    lab.link.freeze(task, OWNER)
    never(lab, task)
    assert lab.link.thaw(task).reasons == ()
    assert stands(lab, "notes")
    lab.link.freeze(task, OWNER)
    lab.link.set_cycle({}, rows=0)
    lab.machine.wait_until_read(lab.link)
    assert stands(lab, "notes")  # the reason keeps it, now without turns
    lab.link.thaw(task)
    after(lab, steady_s(), 0.0, "notes")


# --- time ----------------------------------------------------------------------------------------


def test_a_limit_counts_time_in_turn_alone(turning_lab: Lab):
    lab = turning_lab
    task = lab.launch(lab.spec("sleep", "600", output="", time_limit_s=1.0))
    lab.link.pid_of(task)
    lab.link.set_cycle({task: 1}, quantum_s=QUANTUM_S)
    end = lab.link.exit_of(task)
    assert end.cause is EndCause.TIME_LIMIT
    assert end.elapsed_s >= 0.99
    assert end.ended_wall_s - end.started_wall_s >= 1.0 + 2 * QUANTUM_S
    away_s = end.ended_wall_s - end.started_wall_s - end.elapsed_s
    assert away_s >= 2 * QUANTUM_S


def test_who_never_has_its_turn_reaches_no_limit_until_it_has(turning_lab: Lab):
    lab = turning_lab
    task = lab.launch(lab.spec("sleep", "600", output="", time_limit_s=0.5))
    lab.link.pid_of(task)
    never(lab, task)
    time.sleep(1.0)
    lab.machine.wait_until_read(lab.link)
    assert task not in lab.link.exits
    lab.link.set_cycle({task: 1 << 2}, quantum_s=0.1, rows=3)
    end = lab.link.exit_of(task)
    assert end.cause is EndCause.TIME_LIMIT
    assert end.ended_wall_s - end.started_wall_s - end.elapsed_s >= 1.0


def test_more_turns_bring_the_limit_nearer(turning_lab: Lab):
    lab = turning_lab
    task = lab.launch(lab.spec("sleep", "600", output="", time_limit_s=3.0))
    lab.link.pid_of(task)
    lab.link.set_cycle({task: 1}, quantum_s=100.0, rows=30, row_0_s=steady_s() - 100.0)
    lab.machine.wait_until_read(lab.link)
    lab.link.set_cycle({task: (1 << 30) - 1}, quantum_s=100.0, rows=30)
    end = lab.link.exit_of(task)
    assert end.cause is EndCause.TIME_LIMIT
    assert end.ended_wall_s - end.started_wall_s < 60.0


# --- who is away ---------------------------------------------------------------------------------


def test_turns_go_on_without_a_daemon(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=SHORT_S)
    lab.machine.wait_until_read(lab.link)
    lab.link.close()
    since_s = steady_s() + 1.0
    after(lab, since_s, 6 * SHORT_S, "one", "two")
    cycle = Cycle(SHORT_S, 2, row_0_s)
    for name, mask in (("one", 1), ("two", 2)):
        assert out_of_turn(notes(lab, name), cycle, mask, since_s) < OUT_PART_MAX
    lab.link = lab.machine.attach()
    lab.link.spawned |= {each.attempt: each for each in lab.link.welcome.alive}


def test_one_that_switches_and_is_killed_is_replaced(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=SHORT_S)
    after(lab, row_0_s, 1.0, "one", "two")
    for pid in switcher_of(lab):
        os.kill(pid, signal.SIGKILL)
    since_s = steady_s() + 3.0
    after(lab, since_s, 6 * SHORT_S, "one", "two")
    cycle = Cycle(SHORT_S, 2, row_0_s)
    for name, mask in (("one", 1), ("two", 2)):
        assert out_of_turn(notes(lab, name), cycle, mask, since_s) < OUT_PART_MAX


def test_one_that_switches_and_hangs_is_replaced_when_a_task_is_needed_back(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=SHORT_S)
    after(lab, row_0_s, 1.0, "one", "two")
    for pid in switcher_of(lab):
        os.kill(pid, signal.SIGSTOP)
    assert cancel(lab, one).cause is EndCause.CANCELLED
    after(lab, steady_s(), 6 * SHORT_S, "two")

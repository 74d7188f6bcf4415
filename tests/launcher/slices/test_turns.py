"""Tasks that take turns, in each way to freeze: by a switching process, and by signals."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.model.time_slices import SliceCycle
from iriai.system.clock import steady_s
from tests.launcher.harness import Lab, launch, until
from tests.launcher.slices.turning import (
    NOTES,
    SHORT_S,
    begin,
    cancel,
    comes_to_stand,
    goes_on,
    never,
    notes,
    quantum_of,
    signal_switcher,
    stands,
    switcher_of,
    take_turns,
)

USER, OWNER = SuspendReason.USER, SuspendReason.OWNER


# --- turns ---------------------------------------------------------------------------------------


def test_two_tasks_take_turns_and_both_get_on(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=quantum_of(lab))
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"one": 1, "two": 2})
    assert lab.link.frozen == []  # whose turn it is is nobody's reason


def test_who_is_not_named_runs_all_the_time(turning_lab: Lab):
    lab = turning_lab
    _, without = begin(lab, "always", "never")
    lab.link.set_cycle({without: 0}, quantum_s=SHORT_S)
    comes_to_stand(lab, "never")
    goes_on(lab, "always")
    assert not stands(lab, "always")


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_without_turns_everybody_goes_on(turning_lab: Lab, rows: int):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    lab.link.set_cycle({task: 0}, quantum_s=SHORT_S)
    lab.machine.wait_until_read(lab.link)
    comes_to_stand(lab)
    named = {task: 0} if rows < 2 else {}
    lab.link.set_cycle(named, quantum_s=SHORT_S, rows=rows)
    goes_on(lab)
    until(lambda: not switcher_of(lab) or rows == 2, "the end of the process that switches")


def test_what_is_not_newer_changes_nothing(turning_lab: Lab):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    last = int(steady_s() * 1e6)
    lab.link.set_cycle({task: 0}, number=last)
    for number in (last, last - 1, 5, 1):
        lab.link.set_cycle({}, rows=0, number=number)
    lab.machine.wait_until_read(lab.link)
    comes_to_stand(lab)


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
        goes_on(lab)
        never(lab, task)
    lab.link.pid_of(task)
    if is_first_named:
        time.sleep(0.3)
        assert notes(lab, "notes") == []
    else:
        comes_to_stand(lab)
    lab.link.set_cycle({task: 3}, quantum_s=SHORT_S)
    goes_on(lab)


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
    row_0_s = lab.link.set_cycle({task: 1}, quantum_s=quantum_of(lab))
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"notes": 1})
    state = lab.link.freeze(task, USER)
    assert state.is_complete
    assert stands(lab)
    thawed = lab.link.thaw(task)
    assert thawed.frozen_s == pytest.approx(thawed.changed_s - state.changed_s)
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"notes": 1})


def test_the_last_reason_is_taken_out_of_turn_and_it_stands(turning_lab: Lab):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    lab.link.freeze(task, OWNER)
    never(lab, task)
    assert lab.link.thaw(task).reasons == ()
    comes_to_stand(lab)
    lab.link.freeze(task, OWNER)
    lab.link.set_cycle({}, rows=0)
    lab.machine.wait_until_read(lab.link)
    assert stands(lab)  # the reason keeps it, now without turns
    lab.link.thaw(task)
    goes_on(lab)


# --- time ----------------------------------------------------------------------------------------


def test_a_limit_counts_time_in_turn_alone(turning_lab: Lab):
    lab = turning_lab
    task = lab.launch(lab.spec("sleep", "600", output="", time_limit_s=1.0))
    lab.link.pid_of(task)
    lab.link.set_cycle({task: 1}, quantum_s=0.25)
    end = lab.link.exit_of(task)
    assert end.cause is EndCause.TIME_LIMIT
    assert end.elapsed_s >= 0.99
    assert end.ended_wall_s - end.started_wall_s >= 1.0 + 0.5
    away_s = end.ended_wall_s - end.started_wall_s - end.elapsed_s
    assert away_s >= 0.5


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
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=quantum_of(lab))
    lab.machine.wait_until_read(lab.link)
    lab.link.close()
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"one": 1, "two": 2})
    lab.link = lab.machine.attach()
    lab.link.spawned |= {each.attempt: each for each in lab.link.welcome.alive}


def test_who_switches_keeps_nothing_else_of_the_launcher(turning_lab: Lab):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    row_0_s = lab.link.set_cycle({task: 1}, quantum_s=quantum_of(lab))
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"notes": 1})
    for pid in switcher_of(lab):
        places = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
        own = [each for each in places if each.startswith(("socket:", "anon_inode:[timerfd]"))]
        freezers = [each for each in places if each.startswith("/sys/fs/cgroup/")]
        assert (len(own), len(freezers)) == (2, 1)
        assert len(places) <= 2 + 1 + 3  # and the standard ones
        assert os.getsid(pid) == pid


def test_one_that_switches_and_is_killed_is_replaced(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=quantum_of(lab))
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"one": 1, "two": 2})
    signal_switcher(lab, signal.SIGKILL)
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"one": 1, "two": 2})


def test_one_that_switches_and_hangs_is_replaced_when_a_task_is_needed_back(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=quantum_of(lab))
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"one": 1, "two": 2})
    signal_switcher(lab, signal.SIGSTOP)
    assert cancel(lab, one).cause is EndCause.CANCELLED
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"two": 2})

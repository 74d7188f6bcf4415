"""Tasks that are frozen and go on, in each way: by freezers of both versions, and by signals."""

from __future__ import annotations

import os
import signal
import time

import pytest

from iriai.launcher.contract.messages import (
    Freeze,
    FreezeOrder,
    Launch,
    ParallelSeat,
    StartOrder,
    StartStep,
    Template,
    Terminate,
)
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.model.suspension import SuspendReason
from tests.launcher.harness import Lab, Machine, attempt, is_running, until

OWNER, USER = SuspendReason.OWNER, SuspendReason.USER
BUSY = """
import mmap, os, struct
with open("count.new", "wb") as file: file.write(bytes(8))
file = open("count.new", "r+b")
shared = mmap.mmap(file.fileno(), 8)
os.rename("count.new", "count")
number = 0
while True:
    number += 1
    struct.pack_into("=q", shared, 0, number)
"""
"""Counts in a file as long as it runs."""
LISTENS = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
open("ready", "w").write("x")
while True: time.sleep(0.01)
"""


def count(lab: Lab, name: str = "count") -> int:
    return int.from_bytes((lab.folder / name).read_bytes(), "little")


def stands(lab: Lab, name: str = "count") -> bool:
    """Whether what counts in this file does not."""
    before = count(lab, name)
    time.sleep(0.15)
    return count(lab, name) == before


def goes_on(lab: Lab, name: str = "count") -> bool:
    before = count(lab, name)
    until(lambda: count(lab, name) != before, "its going on")
    return True


def await_count(lab: Lab, name: str = "count") -> None:
    until((lab.folder / name).exists, f"file {name}")


def busy(lab: Lab, text: str = BUSY, **more: object):
    """Start a task that counts."""
    started = lab.launch(lab.python(text, output="", **more))
    await_count(lab)
    return started


def cancel(lab: Lab, task, grace_s: float = 0.0):
    lab.link.send(Terminate((task,), EndCause.CANCELLED, grace_s))
    return lab.link.exit_of(task)


# --- orders --------------------------------------------------------------------------------------


def test_it_stands_while_there_are_reasons_and_goes_on_without(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab)
    assert goes_on(lab)

    state = lab.link.freeze(task)
    assert (state.reasons, state.is_complete, state.frozen_s) == ((USER,), True, 0.0)
    assert stands(lab)

    thawed = lab.link.thaw(task)
    assert (thawed.reasons, thawed.is_complete) == ((), True)
    assert thawed.frozen_s == pytest.approx(thawed.changed_s - state.changed_s)
    assert thawed.frozen_s >= 0.15
    assert goes_on(lab)
    cancel(lab, task)


def test_another_reason_is_told_and_changes_nothing(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab)
    first = lab.link.freeze(task)
    second = lab.link.freeze(task, USER, OWNER)
    assert second.reasons == (USER, OWNER)
    assert second.frozen_s == pytest.approx(second.changed_s - first.changed_s)
    assert stands(lab)
    assert lab.link.freeze(task, OWNER).reasons == (OWNER,)
    assert stands(lab)
    cancel(lab, task)


def test_orders_that_are_repeated_or_late_are_ignored(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab)
    lab.link.order_freeze(task, USER, number=70)
    lab.link.state_of(task, 70)
    told = len(lab.link.frozen)
    for number, reasons in ((70, ()), (69, ()), (0, (OWNER,))):
        lab.link.send(Freeze((FreezeOrder(task, number, reasons),)))
    lab.machine.wait_until_read(lab.link)
    assert stands(lab)
    assert len(lab.link.frozen) == told
    lab.link.order_freeze(task, number=71)
    assert lab.link.state_of(task, 71).reasons == ()
    assert goes_on(lab)
    cancel(lab, task)


def test_orders_about_what_is_unknown_or_has_ended_are_ignored(freezing_lab: Lab):
    lab = freezing_lab
    over = lab.launch(lab.spec("true"))
    lab.link.exit_of(over)
    for wanted in (over, attempt(999_999), over.of_step(3)):
        lab.link.order_freeze(wanted, USER)
    lab.machine.wait_until_read(lab.link)
    assert lab.link.frozen == []
    assert lab.run("true").cause is EndCause.COMPLETED


def test_many_are_frozen_by_one_message(freezing_lab: Lab):
    lab = freezing_lab
    tasks = [lab.launch(lab.python(BUSY.replace("count", f"c{n}"), output="")) for n in range(8)]
    for number in range(8):
        await_count(lab, f"c{number}")
    lab.link.send(Freeze(tuple(FreezeOrder(each, 1, (OWNER,)) for each in tasks)))
    for each in tasks:
        assert lab.link.state_of(each, 1).is_complete
    assert all(stands(lab, f"c{number}") for number in range(8))
    lab.link.send(Freeze(tuple(FreezeOrder(each, 2, ()) for each in tasks)))
    for each in tasks:
        lab.link.state_of(each, 2)
    for number in range(8):
        assert goes_on(lab, f"c{number}")
    for each in tasks:
        cancel(lab, each)


def test_a_group_that_was_frozen_serves_the_next_task(freezing_lab: Lab):
    lab = freezing_lab
    for _ in range(3):
        task = busy(lab)
        lab.link.freeze(task)
        cancel(lab, task)
        (lab.folder / "count").unlink()
        assert lab.run("true").cause is EndCause.COMPLETED


def test_what_was_suspended_ends_as_what_was_not(freezing_lab: Lab):
    lab = freezing_lab
    text = "echo > ready; read line < gate; echo $line; exit 3"
    lab.run("mkfifo", "gate")
    task = lab.launch(lab.spec("sh", "-c", text))
    lab.wait_for("ready")
    for _ in range(3):
        lab.link.freeze(task)
        lab.link.thaw(task)
    (lab.folder / "gate").write_text("said\n")
    end = lab.link.exit_of(task)
    assert (end.cause, end.exit_code, lab.read()) == (EndCause.FAILED, 3, "said\n")


# --- starts --------------------------------------------------------------------------------------


def test_what_was_not_spawned_yet_starts_frozen(freezing_lab: Lab):
    lab = freezing_lab
    spec = lab.spec("sh", "-c", "echo > began", output="", time_limit_s=60.0)
    wanted = lab.new_attempt()
    order = Launch((Template(spec, b"\x80"),), (StartOrder(wanted, 0),))
    lab.link.send_at_once(order, Freeze((FreezeOrder(wanted, 1, (OWNER,)),)))
    pid = lab.link.pid_of(wanted)
    lab.link.until(lambda: [s for s in lab.link.frozen if s.attempt == wanted], "word of it")
    time.sleep(0.2)
    assert is_running(pid)
    assert not (lab.folder / "began").exists()
    lab.link.order_freeze(wanted, number=2)
    end = lab.link.exit_of(wanted)
    assert end.cause is EndCause.COMPLETED
    assert end.elapsed_s < end.ended_wall_s - end.started_wall_s - 0.15
    assert (lab.folder / "began").exists()


def test_reasons_that_were_taken_before_the_start_freeze_nothing(freezing_lab: Lab):
    lab = freezing_lab
    wanted = lab.new_attempt()
    order = Launch((Template(lab.spec("true"), b"\x80"),), (StartOrder(wanted, 0),))
    orders = [Freeze((FreezeOrder(wanted, n, r),)) for n, r in ((1, (USER,)), (2, ()))]
    lab.link.send_at_once(order, *orders)
    assert lab.link.exit_of(wanted).cause is EndCause.COMPLETED


def test_what_waits_frozen_can_be_cancelled(freezing_lab: Lab):
    lab = freezing_lab
    wanted = lab.new_attempt()
    order = Launch((Template(lab.spec("sleep", "60"), b"\x80"),), (StartOrder(wanted, 0),))
    freeze = Freeze((FreezeOrder(wanted, 1, (USER,)),))
    lab.link.send_at_once(order, freeze, Terminate((wanted,), EndCause.CANCELLED, 5.0))
    assert lab.link.exit_of(wanted).cause is EndCause.CANCELLED
    lab.link.order_freeze(wanted, number=2)
    assert lab.run("true").cause is EndCause.COMPLETED


# --- ends ----------------------------------------------------------------------------------------


def test_what_is_killed_while_it_is_frozen_is_gone_at_once(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.spec("sh", "-c", "trap '' TERM; sleep 600 & echo $! > child; wait"))
    child = int(lab.wait_for("child"))
    lab.link.freeze(task)
    asked_s = time.monotonic()
    end = cancel(lab, task)
    assert time.monotonic() - asked_s < 2.0
    assert (end.cause, end.signal) == (EndCause.CANCELLED, signal.SIGKILL)
    assert not is_running(child)


def test_what_is_asked_to_end_goes_on_for_its_grace(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.python(LISTENS))
    lab.wait_for("ready")
    lab.link.freeze(task)
    end = cancel(lab, task, 60.0)
    assert (end.cause, end.exit_code) == (EndCause.CANCELLED, 7)


def test_orders_about_what_is_being_ended_change_nothing(freezing_lab: Lab):
    lab = freezing_lab
    text = LISTENS.replace("os._exit(7)", "open('heard', 'w').write('x')")
    task = lab.launch(lab.python(text + "\n", output=""))
    lab.wait_for("ready")
    lab.link.send(Terminate((task,), EndCause.CANCELLED, 600.0))
    lab.wait_for("heard")
    lab.link.order_freeze(task, USER)
    lab.machine.wait_until_read(lab.link)
    (lab.folder / "heard").unlink()
    state = lab.link.pid_of(task)
    assert is_running(state)
    os.kill(state, signal.SIGTERM)
    lab.wait_for("heard")
    cancel(lab, task)


def test_the_limit_of_wall_time_stands(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.spec("sleep", "600", time_limit_s=0.6))
    lab.link.pid_of(task)
    lab.link.freeze(task)
    time.sleep(1.0)
    assert task not in lab.link.exits
    state = lab.link.thaw(task)
    end = lab.link.exit_of(task)
    assert end.cause is EndCause.TIME_LIMIT
    assert 0.6 <= end.elapsed_s < 0.6 + 1.0
    lasted_s = end.ended_wall_s - end.started_wall_s
    assert end.elapsed_s == pytest.approx(lasted_s - state.frozen_s, abs=0.1)


def test_a_limit_that_runs_out_while_it_runs_again_is_kept(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.spec("sleep", "600", time_limit_s=1.0))
    lab.link.pid_of(task)
    for _ in range(4):
        lab.link.freeze(task)
        time.sleep(0.1)
        lab.link.thaw(task)
    end = lab.link.exit_of(task)
    assert end.cause is EndCause.TIME_LIMIT
    assert 1.0 <= end.elapsed_s < 2.0
    assert end.ended_wall_s - end.started_wall_s >= 1.4


def test_a_lease_goes_on(freezing_lab: Lab):
    lab = freezing_lab
    spec = lab.spec("sleep", "600", kill_grace_s=600.0)
    wanted = lab.new_attempt()
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    order = StartOrder(wanted, 0, lease_s=0.5, leased_s=now_s)
    lab.link.send(Launch((Template(spec, b"\x80"),), (order,)))
    lab.link.pid_of(wanted)
    lab.link.freeze(wanted)
    end = lab.link.exit_of(wanted)
    assert (end.cause, end.signal) == (EndCause.LOST, signal.SIGKILL)


def test_limits_of_use_hold_after_it_was_frozen(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab, cpu_limit_s=0.8, resources=Resources(memory_bytes=256 << 20))
    lab.link.freeze(task)
    time.sleep(1.0)
    assert task not in lab.link.exits
    lab.link.thaw(task)
    end = lab.link.exit_of(task)
    assert end.cause is EndCause.CPU_LIMIT


def test_a_launcher_that_is_shut_down_ends_what_is_frozen(new_freezing_machine: Machine):
    lab = Lab(new_freezing_machine.start())
    task = lab.launch(lab.python(LISTENS, kill_grace_s=60.0))
    lab.wait_for("ready")
    lab.link.freeze(task)
    assert lab.machine.process is not None
    lab.machine.process.terminate()
    end = lab.link.exit_of(task)
    assert (end.cause, end.exit_code) == (EndCause.EVICTED, 7)
    assert lab.machine.wait() == 0


def test_a_daemon_that_comes_back_is_told_what_is_frozen(new_freezing_machine: Machine):
    lab = Lab(new_freezing_machine.start())
    frozen, thawed, other = (
        busy(lab),
        lab.launch(lab.spec("sleep", "60")),
        lab.launch(lab.spec("sleep", "60")),
    )
    for each in (thawed, other):
        lab.link.pid_of(each)
    state = lab.link.freeze(frozen)
    lab.link.freeze(thawed)
    second = lab.link.thaw(thawed)
    link = lab.machine.attach()
    lab.machine.wait_until_read(link)
    assert link.told.index("Attached") < link.told.index("Frozen")
    assert link.frozen == [state, second]
    assert stands(lab)


# --- steps and ranks -----------------------------------------------------------------------------


def step(lab: Lab, seat, number: int, *command: str):
    wanted = seat.of_step(number)
    lab.link.send(StartStep(wanted, 0, command, Interaction.STREAM))
    return wanted


def test_a_step_is_frozen_with_its_seat(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.spec("sleep", "600", output=""))
    lab.link.pid_of(task)
    beside = step(lab, task, 1, *lab.python(BUSY).command)
    await_count(lab)
    lab.link.freeze(task)
    assert stands(lab)
    lab.link.thaw(task)
    assert goes_on(lab)
    lab.link.send(Terminate((beside,), EndCause.CANCELLED, 0.0))
    lab.link.exit_of(beside)
    cancel(lab, task)


def test_a_step_beside_a_frozen_seat_runs_once_it_is_thawed(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.spec("sleep", "600", output=""))
    lab.link.pid_of(task)
    lab.link.freeze(task)
    beside = step(lab, task, 1, "sh", "-c", "echo said > said; exit 4")
    lab.link.until(lambda: beside in lab.link.ends, "its streams")
    time.sleep(0.8)  # longer than from one look at what signals stopped to the next
    assert not (lab.folder / "said").exists()
    lab.link.thaw(task)
    end = lab.link.exit_of(beside)
    assert (end.exit_code, lab.read("said")) == (4, "said\n")
    assert end.elapsed_s < end.ended_wall_s - end.started_wall_s - 0.5
    cancel(lab, task)


def test_a_step_beside_a_frozen_seat_can_be_ended(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.spec("sleep", "600", output=""))
    lab.link.pid_of(task)
    beside = step(lab, task, 1, "sh", "-c", "trap '' TERM; echo > ready; sleep 600")
    lab.wait_for("ready")
    lab.link.freeze(task)
    lab.link.send(Terminate((beside,), EndCause.CANCELLED, 0.1))
    assert lab.link.exit_of(beside).cause is EndCause.CANCELLED
    assert task not in lab.link.exits
    cancel(lab, task)


def test_all_ranks_of_a_seat_are_frozen_and_those_to_come_wait(freezing_lab: Lab):
    lab = freezing_lab
    ranks = 70  # more than are started before anything else is looked at
    wanted = lab.new_attempt()
    spec = lab.spec("sh", "-c", "echo > rank-$IRIAI_RANK; exec sleep 600", output="")
    order = StartOrder(wanted, 0, parallel=ParallelSeat(ranks))
    freeze = Freeze((FreezeOrder(wanted, 1, (OWNER,)),))
    lab.link.send_at_once(Launch((Template(spec, b"\x80"),), (order,)), freeze)
    lab.link.pid_of(wanted)
    time.sleep(0.3)
    assert list(lab.folder.glob("rank-*")) == []
    lab.link.order_freeze(wanted, number=2)
    until(lambda: len(list(lab.folder.glob("rank-*"))) == ranks, "all ranks")
    assert lab.link.freeze(wanted, OWNER).is_complete
    end = cancel(lab, wanted)
    assert end.cause is EndCause.CANCELLED

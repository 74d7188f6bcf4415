"""Tasks that make it hard to freeze them, or to end them while they are frozen."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import EndInput, Terminate
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from tests.launcher.harness import Lab, is_running, until
from tests.launcher.tasks.test_freezing import (
    BUSY,
    await_count,
    busy,
    cancel,
    count,
    goes_on,
    stands,
)

CATCHES = """
import signal
def hear(number, _): open("heard", "a").write(f"{number} ")
signal.signal(signal.SIGCONT, hear)
def leave(number, _):
    hear(number, _)
    os._exit(7)
signal.signal(signal.SIGTERM, leave)
"""
FORKS = """
import os
for _ in range(3): os.fork()
%s
while True:
    child = os.fork()
    if child == 0:
        number = int.from_bytes(shared[:8], "little")
        shared[:8] = (number + 1).to_bytes(8, "little")
        os._exit(0)
    os.waitpid(child, 0)
"""
CONTINUES = """
import os, signal, time
mains = []
for _ in range(4):
    child = os.fork()
    if child == 0: break
    mains.append(child)
else:
    while True:
        for each in mains: os.kill(each, signal.SIGCONT)
        time.sleep(0.0005)
%s
"""
WAITS_FOR_VFORK = """
import ctypes, time
if ctypes.CDLL(None).vfork() == 0:
    open("ready", "w").write("x")
    time.sleep(600)
"""
PREPARED, _, _LOOP = BUSY.partition("number = 0")


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_one_that_catches_what_continues_and_what_ends_it(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab, "import os" + CATCHES + BUSY)
    for _ in range(3):
        lab.link.freeze(task)
        assert stands(lab)
        lab.link.thaw(task)
    lab.link.freeze(task)
    end = cancel(lab, task, 60.0)
    assert end.exit_code == 7
    assert str(int(signal.SIGTERM)) in lab.read("heard").split()


def test_one_that_forks_while_it_is_stopped(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab, PREPARED + FORKS % "")
    for _ in range(5):
        assert lab.link.freeze(task).is_complete
        assert stands(lab)
        lab.link.thaw(task)
        assert goes_on(lab)
    lab.link.freeze(task)
    assert cancel(lab, task).cause is EndCause.CANCELLED


def test_one_that_continues_its_children(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab, PREPARED + CONTINUES % ("number = 0" + _LOOP))
    lab.link.freeze(task)
    assert stands(lab)
    lab.link.thaw(task)
    assert goes_on(lab)
    cancel(lab, task)


def test_one_that_is_continued_by_another_process(freezing_lab: Lab):
    lab = freezing_lab
    task = busy(lab)
    pid = lab.link.pid_of(task)
    lab.link.freeze(task)
    for _ in range(3):
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.6)
        assert stands(lab)
    lab.link.thaw(task)
    assert goes_on(lab)
    cancel(lab, task)


def test_one_on_a_terminal(freezing_lab: Lab):
    lab = freezing_lab
    text = PREPARED + "number = 0" + _LOOP
    spec = lab.python(text, output="", interaction=Interaction.TERMINAL, window=(24, 80))
    task = lab.launch(spec)
    await_count(lab)
    lab.link.until(lambda: task in lab.link.ends, "its terminal")
    terminal = lab.link.ends[task]["tty"]
    lab.link.freeze(task)
    os.write(terminal, b"keys\n")
    assert stands(lab)
    lab.link.thaw(task)
    assert goes_on(lab)
    lab.link.freeze(task)
    os.write(terminal, b"\x03")  # it gets SIGINT when it goes on
    assert stands(lab)
    lab.link.thaw(task)
    assert lab.link.exit_of(task).cause is EndCause.FAILED


def test_one_whose_terminal_goes_away(freezing_lab: Lab):
    lab = freezing_lab
    spec = lab.python(BUSY, output="", interaction=Interaction.TERMINAL, window=(24, 80))
    task = lab.launch(spec)
    await_count(lab)
    lab.link.until(lambda: task in lab.link.ends, "its terminal")
    lab.link.freeze(task)
    os.close(lab.link.ends.pop(task)["tty"])
    lab.link.send(EndInput(task))  # the kernel sends SIGHUP and SIGCONT
    time.sleep(0.6)
    if task not in lab.link.exits and is_running(lab.link.pid_of(task)):
        assert stands(lab)
        lab.link.thaw(task)
    assert lab.link.exit_of(task).signal == signal.SIGHUP


def test_one_in_an_uninterruptible_wait(freezing_lab: Lab):
    lab = freezing_lab
    task = lab.launch(lab.python(WAITS_FOR_VFORK, output=""))
    pid = lab.link.pid_of(task)
    lab.wait_for("ready")
    until(lambda: state_of(pid) == "D", "its waiting")
    # The freezer of version 1 does not count it as frozen, which is told after 5 s.
    is_counted = lab.machine.variant.isolation != "v1"
    assert lab.link.freeze(task).is_complete is is_counted
    asked_s = time.monotonic()
    cancel(lab, task)
    assert time.monotonic() - asked_s < 2.0
    assert not is_running(pid)


def test_one_that_left_its_session_and_its_parent(freezing_lab: Lab):
    lab = freezing_lab
    text = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec({BUSY!r})
    os._exit(0)
while True: time.sleep(0.01)
"""
    task = busy(lab, text)
    lab.link.freeze(task)
    assert stands(lab)
    lab.link.thaw(task)
    assert goes_on(lab)
    lab.link.freeze(task)
    cancel(lab, task)
    before = count(lab)
    time.sleep(0.1)
    assert count(lab) == before


@pytest.mark.parametrize("grace_s", [0.0, 0.2])
def test_one_that_listens_to_nothing_is_killed_while_it_is_frozen(freezing_lab: Lab, grace_s):
    lab = freezing_lab
    task = lab.launch(lab.spec("sh", "-c", "trap '' TERM CONT HUP; echo > ready; sleep 600"))
    lab.wait_for("ready")
    lab.link.freeze(task)
    asked_s = time.monotonic()
    lab.link.send(Terminate((task,), EndCause.EVICTED, grace_s))
    assert lab.link.exit_of(task).signal == signal.SIGKILL
    assert time.monotonic() - asked_s < grace_s + 2.0

"""Limits and requested ends: the cause, the grace, and that nothing of the task survives."""

import signal

import pytest

from iriai.launcher.contract.messages import SampleAll, Terminate
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from tests.launcher.harness import PYTHON, Lab, attempt, is_running, until

SLEEP = "import time; time.sleep(600)"
LEAVE_ORPHAN = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        os.open("/dev/null", os.O_RDWR); os.dup(0); os.dup(0)
        open("pid.new", "w").write(str(os.getpid())); os.rename("pid.new", "pid")
        %s
        time.sleep(600)
    os._exit(0)
while not os.path.exists("pid"): time.sleep(0.005)
"""


def test_a_task_that_goes_to_the_background_does_not_survive(lab: Lab):
    end = lab.end_of(lab.python(LEAVE_ORPHAN % ""))
    assert end.cause is EndCause.COMPLETED
    assert not is_running(int(lab.read("pid")))


def test_an_orphan_that_hides_its_environment_does_not_survive(lab: Lab):
    hide = f"os.execve({PYTHON!r}, ['hidden', '-c', {SLEEP!r}], {{}})"
    lab.end_of(lab.python(LEAVE_ORPHAN % hide))
    assert not is_running(int(lab.read("pid")))


def test_orphans_of_other_tasks_are_left_alone(lab: Lab):
    other = lab.launch(lab.python(LEAVE_ORPHAN % "" + SLEEP, output=""))
    orphan = int(lab.wait_for("pid"))
    for _ in range(3):
        lab.end_of(lab.machine.spec("sh", "-c", "sleep 600 &"))
    assert is_running(orphan)
    lab.link.send(Terminate((other,), EndCause.CANCELLED, 0.0))
    lab.link.exit_of(other)
    assert not is_running(orphan)


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu_limit_s": float("inf")},
        {"cpu_limit_s": float("nan")},
        {"time_limit_s": 1e300},
        {"kill_grace_s": float("inf"), "cpu_limit_s": 1.0},
        {"process_limit": 2**63},
    ],
)
def test_a_limit_that_cannot_be_kept_is_named_and_ends_no_launcher(lab: Lab, limits):
    end = lab.run("true", **limits)
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert next(iter(limits)) in end.message
    assert lab.run("true").cause is EndCause.COMPLETED


def test_the_limit_of_wall_time(lab: Lab):
    end = lab.run("sleep", "600", time_limit_s=0.2)
    assert end.cause is EndCause.TIME_LIMIT
    assert end.elapsed_s >= 0.2
    assert end.message == "time limit of 0.2s reached"


def test_an_end_is_asked_for_first(lab: Lab):
    text = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
open("ready", "w").write("x")
while True: time.sleep(0.01)
"""
    started = lab.launch(lab.python(text))
    lab.wait_for("ready")
    lab.link.send(Terminate((started,), EndCause.CANCELLED, 60.0))
    end = lab.link.exit_of(started)
    assert (end.cause, end.exit_code) == (EndCause.CANCELLED, 7)


def test_who_does_not_listen_is_killed_after_the_grace(lab: Lab):
    started = lab.launch(lab.spec("sh", "-c", "trap '' TERM; echo > ready; sleep 600"))
    lab.wait_for("ready")
    lab.link.send(Terminate((started,), EndCause.CANCELLED, 0.2))
    assert lab.link.exit_of(started).signal == signal.SIGKILL


def test_the_whole_tree_is_asked(lab: Lab):
    text = """
import os, signal, sys, time
def leave(*_):
    os.write(os.open("heard", os.O_WRONLY | os.O_CREAT | os.O_APPEND), b"x")
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
child = os.fork()
if child == 0:
    os.setsid()
    open("ready", "w").write("x")
while True: time.sleep(0.01)
"""
    started = lab.launch(lab.python(text))
    lab.wait_for("ready")
    lab.link.send(Terminate((started,), EndCause.CANCELLED, 60.0))
    end = lab.link.exit_of(started)
    assert (end.cause, end.exit_code) == (EndCause.CANCELLED, 0)
    until(lambda: len(lab.read("heard")) >= 1, "the main process heard it")


def test_a_stopped_task_hears_it_too(lab: Lab):
    started = lab.launch(lab.spec("sh", "-c", "echo > ready; kill -STOP $$"))
    lab.wait_for("ready")
    lab.link.send(Terminate((started,), EndCause.EVICTED, 60.0))
    assert lab.link.exit_of(started).signal == signal.SIGTERM


def test_an_end_without_grace_kills_at_once(lab: Lab):
    started = lab.launch(lab.spec("sh", "-c", "trap '' TERM; echo > ready; sleep 600"))
    lab.wait_for("ready")
    lab.link.send(Terminate((started,), EndCause.CANCELLED, 0.0))
    end = lab.link.exit_of(started)
    assert (end.cause, end.signal) == (EndCause.CANCELLED, signal.SIGKILL)


def test_a_second_request_shortens_the_grace_and_keeps_the_cause(lab: Lab):
    started = lab.launch(lab.spec("sh", "-c", "trap '' TERM; echo > ready; sleep 600"))
    lab.wait_for("ready")
    lab.link.send(Terminate((started,), EndCause.EVICTED, 600.0))
    lab.link.send(Terminate((started,), EndCause.CANCELLED, 0.0))
    assert lab.link.exit_of(started).cause is EndCause.EVICTED


def test_ending_what_is_unknown_does_nothing(lab: Lab):
    lab.link.send(Terminate((attempt(999_999),), EndCause.CANCELLED, 0.0))
    assert lab.run("true").cause is EndCause.COMPLETED


def test_the_limit_of_processor_time(lab: Lab):
    end = lab.end_of(lab.python("while True: pass", cpu_limit_s=0.3))
    assert end.cause is EndCause.CPU_LIMIT
    assert end.usage.cpu_s >= 0.3
    assert "CPU time limit of 0.3s exceeded" in end.message


def test_the_limit_of_processor_time_holds_for_the_sum(lab: Lab):
    text = """
import os
for _ in range(3):
    if os.fork() == 0: break
while True: pass
"""
    assert lab.end_of(lab.python(text, cpu_limit_s=0.5)).cause is EndCause.CPU_LIMIT


def test_the_limit_of_memory(lab: Lab):
    text = "import time; filled = bytearray(b'x') * (200 << 20); time.sleep(600)"
    end = lab.end_of(lab.python(text, resources=Resources(memory_bytes=64 << 20)))
    assert end.cause is EndCause.MEMORY_LIMIT
    assert end.message.startswith("memory limit of 64M exceeded: peak ")


def test_the_limit_of_memory_ends_the_whole_task(lab: Lab):
    text = """
import os, time
if os.fork() == 0:
    filled = bytearray(b'x') * (200 << 20)
    time.sleep(600)
os.wait()
time.sleep(600)
"""
    end = lab.end_of(lab.python(text, resources=Resources(memory_bytes=64 << 20)))
    assert end.cause is EndCause.MEMORY_LIMIT


def test_a_task_within_its_limits_is_left_alone(lab: Lab):
    text = "import time; filled = bytearray(b'x') * (20 << 20); time.sleep(0.7)"
    limits = {"cpu_limit_s": 60.0, "process_limit": 8, "time_limit_s": 60.0}
    spec = lab.python(text, resources=Resources(memory_bytes=512 << 20), **limits)
    end = lab.end_of(spec)
    assert (end.cause, end.message) == (EndCause.COMPLETED, "")


def test_the_limit_of_processes(lab: Lab):
    text = """
import os, time
for _ in range(20):
    if os.fork() == 0: time.sleep(600)
time.sleep(600)
"""
    end = lab.end_of(lab.python(text, process_limit=8))
    assert end.cause is EndCause.FAILED
    assert "process limit of 8" in end.message


def test_limits_of_one_task_do_not_hold_for_the_next(lab: Lab):
    small = Resources(memory_bytes=64 << 20)
    lab.end_of(lab.spec("true", resources=small, process_limit=2, cpu_limit_s=1.0))
    text = """
import subprocess
filled = bytearray(b'x') * (128 << 20)
for _ in range(4): subprocess.Popen(["true"])
"""
    assert lab.end_of(lab.python(text)).cause is EndCause.COMPLETED
    lab.end_of(lab.spec("true", resources=Resources(memory_bytes=32 << 20)))
    text = "filled = bytearray(b'x') * (48 << 20)"
    assert lab.end_of(lab.python(text, resources=small)).cause is EndCause.COMPLETED


def test_use_so_far_is_told(lab: Lab):
    text = """
import time
filled = bytearray(b'x') * (64 << 20)
while time.process_time() < 0.3: pass
open("ready", "w").write("x")
time.sleep(600)
"""
    started = lab.launch(lab.python(text))
    lab.wait_for("ready")
    lab.link.send(SampleAll())
    lab.link.until(lambda: lab.link.sampled, "samples")
    usage = dict(lab.link.sampled[0].samples)[started]
    assert usage.cpu_s >= 0.2
    assert usage.memory_peak_bytes >= 64 << 20
    lab.link.send(Terminate((started,), EndCause.CANCELLED, 0.0))
    lab.link.exit_of(started)

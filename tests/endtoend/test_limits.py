"""Limits that are kept, and how a task's end is told."""

import pytest

from tests.endtoend.installation import PYTHON, Installation
from tests.support.waiting import is_gone, until

CONFIGURATION = """
[machine]
cpus = 8
[jobs]
kill_grace_s = 0.5
"""
ALLOCATE = "held = bytearray(400 << 20)\nfor i in range(0, len(held), 4096): held[i] = 1\n"
# For where the kernel does not look, but we do now and then.
HOLD = "import time; time.sleep(60)"
BURN = "while True: pass"
# Each child leaves its session and its parent; the task itself is over at once.
DOUBLE_FORK = '(setsid sh -c \'sleep 1000 & echo $! > "$1"; wait\' inner "$1" & ); sleep 0.3'


@pytest.fixture(scope="module")
def machine(person):
    installation = Installation(person)
    installation.configure(CONFIGURATION)
    try:
        yield installation.start()
    finally:
        installation.stop()


@pytest.fixture
def ended(machine):
    """Runs a command; its outcome and its one attempt."""

    def run(*command, **fields):
        with machine.client() as client:
            job = client.submit(machine.draft(*command, **fields)).id
            [outcome] = client.wait([job])
            [attempt] = client.show(job).attempts
        return outcome, attempt

    return run


def test_an_exit_code(ended):
    outcome, attempt = ended("sh", "-c", "exit 7")
    assert (outcome.cause, outcome.exit_code, outcome.signal) == ("failed", 7, None)
    assert (attempt.cause, attempt.exit_code) == ("failed", 7)


def test_a_signal(ended):
    outcome, _ = ended("sh", "-c", "kill -9 $$")
    assert (outcome.cause, outcome.exit_code, outcome.signal) == ("failed", None, 9)


def test_wall_time(ended):
    outcome, attempt = ended("sleep", "1000", time_limit_s=0.5)
    assert outcome.cause == "time-limit"
    assert attempt.elapsed_s >= 0.5


def test_wall_time_of_a_task_that_does_not_listen(ended):
    outcome, attempt = ended("sh", "-c", "trap '' TERM; sleep 1000; sleep 1000", time_limit_s=0.5)
    assert outcome.cause == "time-limit"
    assert attempt.elapsed_s >= 1.0  # the grace as well


def test_cpu_time(ended):
    outcome, attempt = ended(PYTHON, "-S", "-c", BURN, cpu_limit_s=0.3)
    assert outcome.cause == "cpu-limit"
    assert attempt.cpu_s >= 0.3


def test_cpu_time_of_several_processes(ended):
    two = f'{PYTHON} -S -c "{BURN}" & {PYTHON} -S -c "{BURN}" & wait'
    outcome, attempt = ended("sh", "-c", two, cpu_limit_s=0.5, cpus=2)
    assert outcome.cause == "cpu-limit"
    assert attempt.cpu_s >= 0.5


def test_memory(ended):
    outcome, attempt = ended(PYTHON, "-S", "-c", ALLOCATE + HOLD, memory_bytes=64 << 20)
    assert outcome.cause == "memory-limit"
    assert "64M" in outcome.message
    assert attempt.memory_peak_bytes >= 60 << 20


def test_peak_memory_and_cpu_time_are_told(ended):
    outcome, attempt = ended(PYTHON, "-S", "-c", ALLOCATE, memory_bytes=800 << 20)
    assert outcome.cause == "completed"
    assert 400 << 20 <= attempt.memory_peak_bytes <= 500 << 20
    assert attempt.cpu_s > 0


def test_processes(ended):
    many = "i=0; while [ $i -lt 50 ]; do sleep 1 & i=$((i+1)); done; wait"
    outcome, _ = ended("sh", "-c", many, process_limit=16)
    assert outcome.cause == "failed"
    assert "16" in outcome.message


def test_a_double_fork_does_not_survive_its_task(machine, ended):
    note = machine.work / "forked"
    outcome, _ = ended("sh", "-c", DOUBLE_FORK, "task", str(note))
    assert outcome.cause == "completed"
    assert is_gone(int(note.read_text()))


def test_a_cancelled_double_fork(machine):
    note = machine.work / "cancelled"
    with machine.client() as client:
        job = client.submit(machine.draft("sh", "-c", DOUBLE_FORK + "; sleep 1000", "t", str(note)))
        until(lambda: note.exists() and note.read_text(), "the fork")
        client.cancel([job.id])
        [outcome] = client.wait([job.id])
    assert outcome.cause == "cancelled"
    assert is_gone(int(note.read_text()))

"""Limits of memory and disk by queue and pool: who is over one ends, and its neighbour goes on."""

from __future__ import annotations

import os

import pytest

from iriai.model.problem import Refused
from tests.endtoend.installation import PYTHON, Installation, installed
from tests.support.waiting import until

MIB = 1 << 20
CONFIGURATION = """
[machine]
cpus = 4
pool = "blade"
[pools.blade]
memory = "512M"
disk = "64M"
[queues.0]
memory_percent = 25
disk_percent = 25
[queues.1]
memory_percent = 50
[queues.2]
memory_percent = 0
"""
NEIGHBOUR = """
import os, sys, time
open(os.environ["TMPDIR"] + "/own", "wb").write(b"x" * (4 << 20))
own = bytearray(b"x") * (60 << 20)
print("there", flush=True)
time.sleep(600)
"""
FILL_MEMORY = "import time; filled = bytearray(b'x') * (300 << 20); time.sleep(600)"
FILL_DISK = """
import os, time
for number in range(40):
    open(f"{os.environ['TMPDIR']}/{number}", "wb").write(b"x" * (1 << 20))
time.sleep(600)
"""


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, CONFIGURATION) as installation:
        yield installation


@pytest.fixture
def client(machine):
    with machine.client() as client:
        yield client


def submitted(machine: Installation, client, *command: str, **fields) -> str:
    return client.submit(machine.draft(*command, output=os.devnull, **fields)).id


def test_over_a_limit_a_job_ends_and_its_neighbour_does_not_notice(machine, client):
    neighbour = submitted(machine, client, PYTHON, "-c", NEIGHBOUR)
    memory = submitted(machine, client, PYTHON, "-c", FILL_MEMORY)
    disk = submitted(machine, client, PYTHON, "-c", FILL_DISK)
    ended = {each.id.partition(".")[0]: each for each in client.wait([memory, disk])}
    for job, cause, words in (
        (memory, "memory-limit", "memory limit of 128M exceeded: peak "),
        (disk, "disk-limit", "disk limit of 16M exceeded: peak "),
    ):
        assert client.show(job).row.cause == cause
        message = ended[job].message
        assert message.startswith(words)
        assert message.endswith(f" on {job.partition('-')[0]}")
        assert message in machine.call("show", job).stdout
        assert message in machine.call("story", job).stdout
        assert cause in machine.call("jobs", "--finished").stdout
    assert client.show(neighbour).row.state == "running"
    client.cancel([neighbour])


def test_what_a_job_may_take_is_held_for_it(machine, client):
    """A part of 50 percent lets two run at once, though the machine has 4 cpus."""
    jobs = [submitted(machine, client, "sleep", "600", queue=1) for _ in range(3)]
    until(lambda: client.show(jobs[1]).row.state == "running", "the second")
    until(lambda: "256M memory" in [each.needed for each in client.why(jobs[2]).reasons], "why")
    assert client.show(jobs[2]).row.state == "queued"
    client.cancel(jobs)
    client.wait(jobs)


def test_amounts_stay_as_they_were_admitted(machine, client):
    job = submitted(machine, client, "true", held=True)
    assert "128M memory, 16M disk" in machine.call("show", job).stdout
    assert machine.call("alter", job, "--queue", "1").returncode == 0
    said = machine.call("alter", job, "--memory", "200M")
    assert (said.returncode, "128M with which the job was admitted" in said.stderr) == (3, True)
    assert machine.call("alter", job, "--disk", "0").returncode == 3
    assert machine.call("alter", job, "--memory", "100M", "--disk", "1M").returncode == 0
    assert machine.call("alter", job, "--memory", "128M").returncode == 0
    client.cancel([job])


def test_what_can_never_be_is_refused_with_the_numbers(machine, client):
    with pytest.raises(Refused, match=r"no machine has 600M memory: .* has 512M memory"):
        submitted(machine, client, "true", memory_bytes=600 * MIB)
    with pytest.raises(Refused, match=r"no machine has 65M disk: .* has 64M disk"):
        submitted(machine, client, "true", named=(("disk", 65 * MIB),))
    with pytest.raises(Refused, match="queue 2 permits 0B of memory on a machine"):
        submitted(machine, client, "true", queue=2)
    said = machine.call("submit", "--disk", "20M", "--", "true")
    assert "queue 0 permits 16M of disk on a machine: less than was asked for" in said.stderr


def test_the_mechanism_is_in_doctor(machine):
    assert "disk" in machine.call("doctor").stdout

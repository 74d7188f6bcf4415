"""`why` names the one reason for which a real job waits, and ceases to when that is gone."""

import os

import pytest

from tests.support.waiting import until

CONFIGURATION = """
[machine]
cpus = 4
memory = "1G"
[jobs]
kill_grace_s = 0.5
"""


class Waiter:
    """Hands jobs in and asks why they wait."""

    def __init__(self, iriai, client):
        self._iriai = iriai
        self.client = client

    def submit(self, *command, **fields):
        draft = self._iriai.draft(*command, output=os.devnull, **fields)
        return self.client.submit(draft).id

    def run(self, seconds, **fields):
        """A job that runs when this returns."""
        job = self.submit("sleep", str(seconds), **fields)
        until(lambda: self.client.show(job).row.state == "running", "the start")
        return job

    def why(self, job):
        """The main reason; None for a job that does not wait."""
        reasons = self.client.why(job).reasons
        return reasons[0] if reasons else None

    def rule(self, job):
        return self.why(job).rule

    def end(self, *jobs):
        self.client.cancel(jobs)
        self.client.wait(jobs)


@pytest.fixture
def waiter(iriai):
    iriai.configure(CONFIGURATION)
    iriai.start()
    with iriai.client() as client:
        yield Waiter(iriai, client)


def test_no_machine_is_large_enough(waiter):
    job = waiter.submit("true", cpus=5, wait_for_resources=True)
    reason = waiter.why(job)
    assert reason.rule == "no-machine-large-enough"
    assert (reason.needed, reason.had) == ("5 cpus", "the machine has 4 cpus")
    waiter.end(job)


def test_the_machine_is_busy(waiter):
    running = waiter.run(60, cpus=3)
    job = waiter.submit("true", cpus=2)
    reason = waiter.why(job)
    assert reason.rule == "machine-busy"
    assert reason.needed == "2 cpus"
    assert reason.had.startswith("1 cpu free")
    waiter.end(running)
    waiter.client.wait([job])
    assert waiter.why(job) is None


def test_its_memory_is_busy(waiter):
    running = waiter.run(60, memory_bytes=800 << 20)
    job = waiter.submit("true", memory_bytes=300 << 20)
    assert waiter.rule(job) == "machine-busy"
    assert "memory" in waiter.why(job).needed
    waiter.end(running)
    waiter.client.wait([job])


def test_a_cap_on_what_runs(iriai):
    iriai.configure(CONFIGURATION + "[order]\nrunning_cap_cpus = 2\n")
    iriai.start()
    with iriai.client() as client:
        waiter = Waiter(iriai, client)
        running = waiter.run(60, cpus=2)
        job = waiter.submit("true")
        assert waiter.rule(job) == "running-cap"
        waiter.end(running)
        client.wait([job])


def test_a_hold(waiter):
    job = waiter.submit("true", held=True)
    assert waiter.rule(job) == "held"
    waiter.client.release([job])
    waiter.client.wait([job])


def test_a_reserved_head_ahead(waiter):
    running = waiter.run(60, cpus=3, time_limit_s=60.0)
    head = waiter.submit("true", cpus=4, time_limit_s=60.0)
    until(lambda: waiter.client.show(head).row.promised, "the promise")
    job = waiter.submit("true", time_limit_s=3600.0)
    reason = waiter.why(job)
    assert reason.rule == "reserved-head-ahead"
    assert head in reason.had
    assert waiter.rule(head) == "machine-busy"
    # A task that is over before the head starts fills in.
    filler = waiter.submit("true", time_limit_s=5.0)
    waiter.client.wait([filler])
    assert waiter.rule(job) == "reserved-head-ahead"
    waiter.end(running)
    waiter.client.wait([head, job])

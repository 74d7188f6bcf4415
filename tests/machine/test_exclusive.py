"""An exclusive task has its machine for itself, and is charged for all of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.model.alteration import Alteration
from iriai.model.reason import Rule
from iriai.model.state import TaskState
from tests.support.virtual import VirtualMachine

LONG_S = 1000.0


def test_it_waits_until_the_machine_is_empty_and_then_nothing_starts_beside_it():
    machine = VirtualMachine(4)
    first = machine.submit("bob", run_s=100.0, limit_s=100.0)
    machine.turn()
    whole = machine.submit("ann", run_s=100.0, limit_s=100.0, exclusive=True)
    machine.turn()
    assert machine.why(whole)[0] is Rule.NOT_EMPTY
    later = machine.submit("cleo", run_s=LONG_S)
    machine.wait(50.0)
    assert machine.running() == [first]  # the last one would delay a promised start
    machine.wait(70.0)
    assert machine.running() == [whole]
    assert machine.machine.node.calendar.free.cpus == 0
    machine.wait(100.0)
    assert machine.running() == [later]
    results = {attempt.number: each for attempt, each in machine.store.results.items()}
    assert round(results[whole.number].charge_s) == 400


def test_a_job_that_waits_can_be_made_exclusive():
    machine = VirtualMachine(4)
    machine.submit("bob", run_s=100.0, limit_s=100.0)
    machine.turn()
    job = machine.submit("ann", run_s=100.0, held=True)
    machine.machine.home.alter(job.number, Alteration(exclusive=True), "ann")
    machine.machine.home.release(job.number, "ann")
    machine.wait(10.0)
    assert machine.state(job) is TaskState.QUEUED
    machine.wait(100.0)
    assert machine.state(job) is TaskState.RUNNING


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(1, 50)), max_size=8))
def test_whatever_else_waits_no_exclusive_task_has_company(jobs):
    machine = VirtualMachine(4)
    wholes = []
    for is_whole, cpus, run_s in jobs:
        job = machine.submit("ann", cpus=cpus, run_s=run_s, limit_s=60.0, exclusive=is_whole)
        wholes += [job] if is_whole else []
    for _ in range(1000):
        machine.wait(20.0)
        running = machine.running()
        assert len(running) <= 1 or not any(job in wholes for job in running)
        if not machine.machine.home.jobs:
            return
    raise AssertionError("some jobs never ran")

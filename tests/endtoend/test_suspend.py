"""Users suspend running tasks: they stand, give others their cpus, and go on where they were."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from iriai.model.problem import NotAllowed, Refused
from tests.endtoend.installation import PYTHON, Installation, installed
from tests.support.waiting import until

COUNT = """
import sys, time
place, most = sys.argv[1], float(sys.argv[2])
while time.process_time() < most:
    open(place, "w").write(f"{time.process_time()}")
open(place, "w").write("done")
"""
"""Works for so much processor time, and says again and again how far it is."""
LOOK_S = 0.3
STANDS_S = 1.0


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, "[machine]\ncpus = 2\n") as installation:
        yield installation


def begun(machine: Installation, client, seconds: float, **fields) -> tuple[str, Path]:
    """A job that counts, once it does; and where it does."""
    place = machine.work / f"counted-{time.monotonic_ns()}"
    fields.setdefault("output", os.devnull)
    draft = machine.draft(PYTHON, "-c", COUNT, str(place), str(seconds), **fields)
    job = client.submit(draft).id
    until(lambda: place.exists() and state(client, job) == "running", "the count to begin")
    return job, place


def state(client, job: str) -> str:
    return client.show(job).row.state


def stands(place: Path) -> bool:
    """Whether the count is where it was a while ago."""
    before = place.read_text()
    time.sleep(LOOK_S)
    return place.read_text() == before


def frozen(client, job: str, place: Path) -> None:
    client.suspend([job])
    assert state(client, job) == "suspended"
    until(lambda: stands(place), "it to stand")


def test_a_suspended_task_stands_and_others_have_its_cpus(machine):
    with machine.client() as client:
        job, place = begun(machine, client, 1.0, cpus=2)
        frozen(client, job, place)
        other = client.submit(machine.draft("true", cpus=2, output=os.devnull)).id
        assert client.wait([other])[0].exit_code == 0
        client.unsuspend([job])
        assert client.wait([job])[0].exit_code == 0
        assert place.read_text() == "done"
        [attempt] = client.show(job).attempts
        assert (attempt.attempt, attempt.reasons) == (1, ())


def test_it_goes_on_once_its_cpus_are_free_again(machine):
    with machine.client() as client:
        job, place = begun(machine, client, 0.5, cpus=2)
        frozen(client, job, place)
        other, counted = begun(machine, client, 600.0, cpus=1)
        client.unsuspend([job])
        until(lambda: "its cpus" in client.why(job).reasons[0].needed, "it to wait for its cpus")
        assert stands(place)
        client.cancel([other])
        assert client.wait([job])[0].exit_code == 0
        assert counted.exists()


def test_time_suspended_counts_in_no_limit(machine):
    with machine.client() as client:
        job, place = begun(machine, client, 600.0, time_limit_s=2.0)
        frozen(client, job, place)
        time.sleep(2.0 + STANDS_S)
        assert state(client, job) == "suspended"
        client.unsuspend([job])
        assert client.wait([job])[0].cause == "time-limit"
        [attempt] = client.show(job).attempts
        lasted_s = attempt.ended_wall_s - attempt.started_wall_s
        assert lasted_s - attempt.elapsed_s >= 2.0
        assert attempt.elapsed_s >= 2.0


def test_what_is_cancelled_while_it_stands_ends(machine):
    with machine.client() as client:
        job, place = begun(machine, client, 600.0)
        frozen(client, job, place)
        client.cancel([job])
        assert client.wait([job])[0].cause == "cancelled"
        with pytest.raises(Refused, match="finished"):
            client.suspend([job])


def test_of_several_by_a_name_those_that_run_are_suspended(machine):
    with machine.client() as client:
        job, place = begun(machine, client, 600.0, name="sweep-1")
        waiting = client.submit(machine.draft("true", held=True, name="sweep-2")).id
        assert client.suspend(["name:sweep-*"]).tasks == {"name:sweep-*": 1}
        until(lambda: stands(place), "it to stand")
        client.cancel([job, waiting])
        client.wait([job, waiting])


@pytest.mark.root
def test_what_is_anothers_is_left_alone(machine, people):
    with machine.client() as client:
        job, _ = begun(machine, client, 600.0)
        with machine.client(people.bob) as other, pytest.raises(NotAllowed):
            other.suspend([job])
        assert state(client, job) == "running"
        client.cancel([job])
        client.wait([job])


def test_people_see_who_suspended_it_and_what_it_keeps(machine):
    with machine.client() as client:
        job, place = begun(machine, client, 600.0, memory_bytes=64 << 20)
        assert machine.call("suspend", job).stdout == f"{job}: 1 task suspended\n"
        until(lambda: stands(place), "it to stand")
        assert "suspended" in machine.call("jobs").stdout
        shown = machine.call("show", job).stdout
        assert "suspended by its user; keeps 64M" in shown
        why = machine.call("why", job).stdout
        assert f"iriai unsuspend {job}" in why
        story = machine.call("story", job).stdout
        assert "suspended" in story
        assert "frozen" in story
        assert "suspension" in machine.call("doctor").stdout
        waiting = client.submit(machine.draft("true", held=True)).id
        refused = machine.call("suspend", waiting)
        assert refused.returncode == 3
        assert "iriai hold" in refused.stderr
        machine.call("cancel", job, waiting)
        client.wait([job, waiting])


def _two_attempts(client, job: str) -> list:
    """The attempts of its task, once there are two of which a client knows."""
    attempts = client.show(job).attempts
    return attempts if len(attempts) == 2 else []


def test_too_long_a_suspension_gives_up_what_it_keeps(person):
    installation = Installation(person)
    installation.configure("[machine]\ncpus = 1\n[jobs]\nuser_suspend_max_s = 2.0\n")
    try:
        machine = installation.start()
        with machine.client() as client:
            job, place = begun(machine, client, 600.0)
            client.suspend([job])
            both = partial(_two_attempts, client, job)
            last, first = until(both, "its next attempt")
            assert (last.cause, first.cause) == ("", "evicted")
            assert "its user kept it suspended for 2.0s" in first.message
            client.cancel([job])
            client.wait([job])
            assert place.exists()
    finally:
        installation.stop()

"""Queues in mode `gang` and `exclusive` on a real machine: turns, and standing for higher ones."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.endtoend.installation import PYTHON, Installation, installed
from tests.endtoend.test_identity import say
from tests.endtoend.test_queues import busy
from tests.endtoend.test_suspend import stands, state
from tests.support.waiting import until

QUANTUM_S = 0.5
CONFIGURATION = f"""
[machine]
cpus = 2
[identity]
minimum_uid = 0
[order]
age_s = "none"
[gang]
quantum_s = {QUANTUM_S}
[queues.0]
mode = "gang"
[queues.1]
mode = "exclusive"
[queues.2]
mode = "gang"
"""
STAMP = """
import os, sys, time
place, enough = sys.argv[1:]
with open(place, "w", buffering=1) as file:
    while not os.path.exists(enough):
        file.write(f"{time.monotonic()}\\n")
        time.sleep(0.005)
    file.write("right\\n")
"""
"""Says what time it is, again and again, until there is enough of it."""
SLICES = 4


class Stamping(NamedTuple):
    """A job of that program."""

    id: str
    place: Path
    enough: Path


@pytest.fixture(scope="module")
def machine():
    """As root tasks are root's here: who calls is an operator, and nobody else is needed."""
    with installed(None, CONFIGURATION) as installation:
        yield installation


def stamps(place: Path) -> list[float]:
    """The times at which a task ran; the line that is being written is left out."""
    if not place.exists():
        return []
    lines = place.read_text().split("\n")[:-1]
    return [float(line) for line in lines if line != "right"]


def slices(times: list[float]) -> list[tuple[float, float]]:
    """The times between pauses as long as a time slice, or nearly."""
    pauses = [(a, b) for a, b in pairwise(times) if b - a > QUANTUM_S * 0.8]
    begins = [times[0], *(after for _, after in pauses)]
    ends = [*(before for before, _ in pauses), times[-1]]
    return list(zip(begins, ends, strict=True))


def begun(machine: Installation, client, **fields) -> Stamping:
    """A job of all cpus that stamps, which is running or in turns."""
    number = time.monotonic_ns()
    place, enough = machine.work / f"stamps-{number}", machine.work / f"enough-{number}"
    command = (PYTHON, "-c", STAMP, str(place), str(enough))
    draft = machine.draft(*command, cpus=2, output=os.devnull, **fields)
    job = Stamping(client.submit(draft).id, place, enough)
    until(lambda: stamps(job.place), "the stamps to begin")
    return job


def ends_right(client, job: Stamping) -> None:
    """It goes on to its end once there is enough."""
    count = len(stamps(job.place))
    until(lambda: len(stamps(job.place)) > count, "it to go on")
    job.enough.touch()
    assert client.wait([job.id])[0].exit_code == 0
    assert job.place.read_text().endswith("right\n")


def elapsed(machine: Installation, job: Stamping) -> tuple[float, float]:
    """The unfrozen time of its attempt, and how long that lasted."""
    [attempt] = say(machine, "show", job.id)["attempts"]
    assert attempt["reasons"] == []
    return attempt["elapsed_s"], attempt["ended_wall_s"] - attempt["started_wall_s"]


def ran_s(job: Stamping) -> float:
    return sum(end - begin for begin, end in slices(stamps(job.place)))


def test_two_gangs_run_in_turns_and_end_right(machine):
    with machine.client() as client:
        jobs = [begun(machine, client, memory_bytes=32 << 20) for _ in range(2)]
        until(
            lambda: all(len(slices(stamps(job.place))) > SLICES for job in jobs),
            "both to have had several time slices",
        )
        [column] = say(machine, "gangs")["matrix"]["machines"]
        assert sorted(column["rows"]) == [[f"{job.id}.0"] for job in jobs]
        for job in jobs:
            ends_right(client, job)
    for job, other in (jobs, jobs[::-1]):
        own, of_other = stamps(job.place), slices(stamps(other.place))
        beside = [at for at in own if any(begin < at < end for begin, end in of_other)]
        assert len(beside) < len(own) / 5
        elapsed_s, lasted_s = elapsed(machine, job)
        assert ran_s(job) * 0.8 <= elapsed_s <= lasted_s - SLICES * QUANTUM_S / 2


def stood(machine: Installation, client, job: Stamping, whom: str) -> float:
    """Check that it stands for somebody, and say since when."""
    until(lambda: state(client, job.id) == "suspended", "the job to stand")
    until(lambda: stands(job.place), "its processes to stand")
    since_s = time.monotonic()
    assert f"suspended by {whom}" in machine.call("show", job.id).stdout
    [why] = client.why(job.id).reasons
    assert whom in f"{why.needed} {why.had}"
    [row] = machine.call("gangs").stdout.splitlines()[-1:]
    assert row.split(maxsplit=2) == [f"{job.id}.0", "1", whom]
    return since_s


def test_an_exclusive_job_stands_for_a_higher_queue_and_goes_on(machine):
    with machine.client() as client:
        low = begun(machine, client, queue=1)
        high = busy(machine, client)
        since_s = stood(machine, client, low, "a higher queue")
        stood_s = time.monotonic() - since_s
        client.cancel([high])
        ends_right(client, low)
    elapsed_s, lasted_s = elapsed(machine, low)
    assert ran_s(low) * 0.8 <= elapsed_s <= lasted_s - stood_s


def test_an_exclusive_job_stands_while_its_queue_is_stopped(machine):
    with machine.client() as client:
        job = begun(machine, client, queue=1)
        say(machine, "queue", "set", "1", "state=enabled")
        stood(machine, client, job, "its queue, which is stopped")
        say(machine, "queue", "set", "1", "state=active")
        ends_right(client, job)


def test_gangs_stand_for_a_higher_queue_and_take_turns_again(machine):
    with machine.client() as client:
        gangs = [begun(machine, client, queue=2, memory_bytes=32 << 20) for _ in range(2)]
        high = begun(machine, client, queue=1)
        for gang in gangs:
            until(lambda gang=gang: state(client, gang.id) == "suspended", "the gangs to stand")
            until(lambda gang=gang: stands(gang.place), "their processes to stand")
        table = say(machine, "gangs")
        assert table["matrix"]["machines"][0]["always"] == [f"{high.id}.0"]
        assert sorted(row["task"] for row in table["standing"]) == [f"{g.id}.0" for g in gangs]
        slices_before = [len(slices(stamps(gang.place))) for gang in gangs]
        ends_right(client, high)
        until(
            lambda: all(
                len(slices(stamps(gang.place))) > count + 1
                for gang, count in zip(gangs, slices_before, strict=True)
            ),
            "both to take turns again",
        )
        for gang in gangs:
            ends_right(client, gang)


def test_a_job_goes_down_queue_by_queue_and_ends_by_its_cpu_time(machine):
    for queue in ("0", "1"):
        say(machine, "queue", "set", queue, "residence_s=0.5")
    try:
        with machine.client() as client:
            count = (PYTHON, "-c", "while True: pass")
            draft = machine.draft(*count, cpus=1, output=os.devnull, cpu_limit_s=3.0)
            job = client.submit(draft).id
            until(lambda: client.show(job).row.queue == 2, "it to be in queue 2")
            assert client.wait([job])[0].cause == "cpu-limit"
        rows = say(machine, "story", job)["rows"]
        moved = [row["text"] for row in rows if row["what"] == "moved"]
        assert moved == ["to queue 1", "to queue 2"]
    finally:
        for queue in ("0", "1"):
            say(machine, "queue", "unset", queue)


@pytest.mark.root
def test_others_see_the_ids_of_tasks_and_nothing_of_whose_they_are(machine, people):
    with machine.client() as client:
        job = begun(machine, client, queue=1, name="secret-name")
        shown = machine.call("gangs", "--json", person=people.bob)
        ends_right(client, job)
    assert (shown.returncode, f"{job.id}.0" in shown.stdout) == (0, True)
    for word in ("secret-name", "root", str(job.place), str(machine.work)):
        assert word not in shown.stdout

"""Whoever is killed while gangs take turns, neither runs beside the other, and nothing is lost.

IRIAI_SEED repeats the moments of an earlier run, IRIAI_KILLS makes the long loop shorter.
"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.endtoend.cluster import Cluster
from tests.endtoend.installation import PYTHON
from tests.support.waiting import until

pytestmark = pytest.mark.root

KILLS = int(os.environ.get("IRIAI_KILLS") or 50)
BACK_ENDS = ("b1", "b2", "b3")
VICTIMS = (
    ("front", "daemon"),
    *((name, part) for part in ("daemon", "launcher") for name in BACK_ENDS),
)
QUANTUM_S = 0.5
PAUSE_S_MAX = 3.0
"""Between two kills: both gangs begin again after some, and have a few slices."""
APART_S = 0.05
"""Two stamps further apart than this: it did not run in between."""
QUEUES = f"""
[identity]
minimum_uid = 0
[gang]
quantum_s = {QUANTUM_S}
[queues.0]
mode = "gang"
"""
STAMP = """
import os, sys, time
place, enough = sys.argv[1:]
machine = os.environ["IRIAI_NODELIST"].split(",")[int(os.environ["IRIAI_RANK"])]
with open(f"{place}/{machine}", "a", buffering=1) as file:
    while not os.path.exists(enough):
        file.write(f"{time.monotonic()}\\n")
        time.sleep(0.005)
with open(f"{place}/right-{machine}", "w"):
    pass
"""
"""A rank that says what time it is, until there is enough of it; it goes on where it was."""


class StampingGang:
    """A job of a rank on each back end."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.place = cluster.front.work / name
        self.place.mkdir()
        self.place.chmod(0o777)
        self.enough = cluster.front.work / f"enough-{name}"
        draft = cluster.front.draft(
            *(PYTHON, "-c", STAMP, str(self.place), str(self.enough)),
            ranks=str(len(BACK_ENDS)),
            nodes=len(BACK_ENDS),
            memory_bytes=64 << 20,
            output=os.devnull,
        )
        with cluster.front.client() as client:
            self.id = client.submit(draft).id

    def stamps(self, machine: str) -> list[float]:
        file = self.place / machine
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [float(line) for line in lines]

    def counts(self) -> list[int]:
        """How often each rank has said so."""
        return [len(self.stamps(name)) for name in BACK_ENDS]

    def right(self) -> list[Path]:
        """What each rank leaves at its end."""
        return sorted(self.place.glob("right-*"))

    def times(self, machine: str) -> list[tuple[float, float]]:
        """The times during which its rank on a machine ran."""
        stamps = self.stamps(machine)
        breaks = [number for number, (a, b) in enumerate(pairwise(stamps), 1) if b - a > APART_S]
        parts = zip([0, *breaks], [*breaks, len(stamps)], strict=True)
        return [(stamps[begin], stamps[end - 1]) for begin, end in parts if end > begin]


@pytest.fixture
def cluster():
    made = Cluster(None)
    for name in BACK_ENDS:
        made.add(name, cpus=1, more=QUEUES)
    yield made.begin(QUEUES)
    made.stop()


@pytest.mark.parametrize("kills", [3, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_whoever_is_killed_gangs_run_in_turns_and_end_right(cluster, seed, kills, record_property):
    random = Random(seed)
    gangs = [StampingGang(cluster, name) for name in ("one", "two")]
    both_run(gangs)
    for number in range(kills):
        machine, part = VICTIMS[number * 3 % len(VICTIMS)] if kills == 3 else random.choice(VICTIMS)
        time.sleep(random.uniform(0.0, PAUSE_S_MAX))
        cluster.machine(machine).kill(part)
    until(cluster.is_whole, "the return of all")
    both_run(gangs)
    for gang in gangs:
        gang.enough.touch()
    with cluster.front.client() as client:
        client.wait([gang.id for gang in gangs])
        attempts = [client.show(gang.id).attempts[0].attempt for gang in gangs]
    assert all(len(gang.right()) == len(BACK_ENDS) for gang in gangs)
    record_property("attempts", attempts)
    longest_s = max(longest_beside(gangs, name) for name in BACK_ENDS)
    assert longest_s <= QUANTUM_S, f"both ran on one machine for {longest_s:.3f} s"


def both_run(gangs: list[StampingGang]) -> None:
    """Wait until all ranks of all gangs go on."""
    before = [gang.counts() for gang in gangs]
    until(
        lambda: all(
            now > then
            for gang, counts in zip(gangs, before, strict=True)
            for now, then in zip(gang.counts(), counts, strict=True)
        ),
        "all ranks to go on",
    )


def longest_beside(gangs: list[StampingGang], machine: str) -> float:
    """For how long both ran on a machine at once, at most."""
    one, two = (gang.times(machine) for gang in gangs)
    return max(min(b, d) - max(a, c) for a, b in one for c, d in two)

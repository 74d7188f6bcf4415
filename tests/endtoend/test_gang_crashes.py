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

from tests.endtoend.installation import PYTHON
from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

KILLS = int(os.environ.get("IRIAI_KILLS") or 50)
MACHINES = ("ume", "take", "matsu", "kiri")
"""The first has the jobs; any may be the broker."""
VICTIMS = [(name, part) for part in ("daemon", "launcher") for name in MACHINES]
QUANTUM_S = 0.5
PAUSE_S_MAX = 3.0
"""Between two kills: both gangs begin again after some, and have a few slices."""
APART_S = 0.05
"""Two stamps further apart than this: it did not run in between."""
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
    """A job of a rank on each machine."""

    def __init__(self, machine: Networked, name: str) -> None:
        self.place = machine.work / name
        self.place.mkdir()
        self.place.chmod(0o777)
        self.enough = machine.work / f"enough-{name}"
        draft = machine.draft(
            *(PYTHON, "-c", STAMP, str(self.place), str(self.enough)),
            ranks=str(len(MACHINES)),
            nodes=len(MACHINES),
            memory_bytes=64 << 20,
            output=os.devnull,
        )
        with machine.client() as client:
            self.id = client.submit(draft).id

    def stamps(self, machine: str) -> list[float]:
        file = self.place / machine
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [float(line) for line in lines]

    def counts(self) -> list[int]:
        """How often each rank has said so."""
        return [len(self.stamps(name)) for name in MACHINES]

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
def network(people):
    """Four machines of one cpu, in namespaces of their own, whose gangs take turns."""
    made = Network(people.ann)
    for name in MACHINES:
        made.add(name, cpus=1)
    try:
        made.start()
        made.machines["ume"].as_root("queue", "set", "0", "mode=gang")
        made.machines["ume"].as_root("gang", "set", f"quantum_s={QUANTUM_S}")
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("kills", [4, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_whoever_is_killed_gangs_run_in_turns_and_end_right(network, seed, kills, record_property):
    random, ume = Random(seed), network.machines["ume"]
    gangs = [StampingGang(ume, name) for name in ("one", "two")]
    both_run(gangs)
    for number in range(kills):
        name, part = random.choice(VICTIMS) if number else (ume.follows() or "ume", "daemon")
        time.sleep(random.uniform(0.0, PAUSE_S_MAX))
        network.machines[name].kill(part)
    until(network.is_whole, "the return of all")
    both_run(gangs)
    for gang in gangs:
        gang.enough.touch()
    with ume.client() as client:
        client.wait([gang.id for gang in gangs])
        attempts = [client.show(gang.id).attempts[0].attempt for gang in gangs]
    assert all(len(gang.right()) == len(MACHINES) for gang in gangs)
    longest_s, part = beside(gangs)
    record_property("attempts", attempts)
    record_property("beside_part", part)
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


def beside(gangs: list[StampingGang]) -> tuple[float, float]:
    """For how long both ran on a machine at once, at most; and the part of all time that was."""
    longest_s = both_s = all_s = 0.0
    for machine in MACHINES:
        one, two = (gang.times(machine) for gang in gangs)
        each_s = [max(0.0, min(b, d) - max(a, c)) for a, b in one for c, d in two]
        longest_s = max(longest_s, *each_s)
        both_s += sum(each_s)
        all_s += sum(b - a for a, b in (*one, *two))
    return longest_s, both_s / all_s

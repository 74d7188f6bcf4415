"""Whoever is killed or stopped, at any step: nothing runs under the owner, and nothing is lost.

IRIAI_SEED repeats the moments of an earlier run, IRIAI_KILLS makes the long loop shorter.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from iriai.launcher.owner.sensor_loop import PROCESS_NAME
from iriai.model.problem import Problem
from iriai.system.procfs import all_processes
from iriai.wire.owner import AskOwner
from tests.endtoend.bridge import Bridge
from tests.endtoend.installation import PYTHON
from tests.endtoend.network import Network, Networked
from tests.endtoend.own_terminals import Person, with_own_terminals
from tests.support.waiting import until

pytestmark = pytest.mark.root

FAULTS = int(os.environ.get("IRIAI_KILLS") or 100)
CONTINUE_S, VACATE_S = 1.5, 4.0
OWNER = f"""
[owner]
profile = "desk"
continue = "{CONTINUE_S}s"
vacate = "{VACATE_S}s"
"""
PARTS = ("daemon", "launcher", "sensors")
STEPS = ("runs", "suspended", "goes on", "vacated")
TYPES_EACH_S, TYPES_S = 0.2, 1.2
STOPPED_S_MAX = 0.8
"""Shorter than the machine is in use after a key: a sensor that is stopped sees none."""
STAMP = """
import os, sys, time
place, enough = sys.argv[1:]
with open(place, "a", buffering=1) as file:
    while not os.path.exists(enough):
        file.write(f"{time.monotonic()}\\n")
        time.sleep(0.005)
with open(place + ".end", "a") as file:
    file.write("end\\n")
"""
TASKS = 2
WAIT_S = 120.0


class UsedDesk:
    """A machine with an owner who types, and two tasks that say what time it is."""

    def __init__(self, machine: Networked, random: Random) -> None:
        self.machine, self._random = machine, random
        self.places = [machine.work / f"task-{number}" for number in range(TASKS)]
        self.enough = machine.work / "enough"
        machine.work.chmod(0o777)
        self.quiet: list[tuple[float, float]] = []
        """When nothing may have run."""
        self.owner = Person(machine)
        with machine.client() as client:
            self.jobs = [client.submit(self._draft(place)).id for place in self.places]

    def _draft(self, place: Path):
        stamp = (PYTHON, "-c", STAMP, str(place), str(self.enough))
        return self.machine.draft(*stamp, output=os.devnull, max_restarts=1000)

    def states(self) -> list[str]:
        with suppress(Problem, OSError), self.machine.client() as client:
            return [row.state for row in client.ask(AskOwner()).tasks]
        return ["unknown"]

    def all_run(self) -> bool:
        return self.states() == ["runs"] * TASKS

    def sizes(self) -> list[int]:
        return [place.stat().st_size if place.exists() else 0 for place in self.places]

    def stands(self) -> bool:
        before = self.sizes()
        time.sleep(0.1)
        return self.sizes() == before

    def uses(self, seconds: float) -> None:
        """Type for a while."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.owner.types()
            time.sleep(TYPES_EACH_S)

    def has_all_stand(self) -> bool:
        """Type until all tasks stand; False: one is gone by then, and comes back later alone."""
        until(self.all_run, "the tasks to run", wait_s=WAIT_S)
        end_s = time.monotonic() + VACATE_S / 2
        while time.monotonic() < end_s:
            self.owner.types()
            if self.states() == ["suspended"] * TASKS and self.stands():
                return True
        return False

    def step(self, step: str) -> None:
        """Bring the tasks to a step, and hurt somebody there."""
        until(self.all_run, "the tasks to run", wait_s=WAIT_S)
        if step == "runs":
            self.hurt()
            return
        until(self.has_all_stand, "all tasks to stand", wait_s=WAIT_S)
        begun_s = time.monotonic()
        if step == "goes on":
            time.sleep(self._random.uniform(0.8, 1.2) * CONTINUE_S)
            self.hurt()
            return
        if step == "vacated":
            time.sleep(self._random.uniform(0.0, TYPES_EACH_S))
            self.uses(VACATE_S - 1.0 + self._random.uniform(0.0, 1.5))
        self.hurt()
        self.uses(TYPES_S)
        self.quiet.append((begun_s, time.monotonic()))

    def hurt(self) -> None:
        """Kill a process, or stop it for a while."""
        part = self._random.choice(PARTS)
        pid = sensors_of(self.machine) if part == "sensors" else self.machine.pid(part)
        if pid is None:
            return
        with suppress(ProcessLookupError):
            if self._random.random() < 0.5:
                os.kill(pid, signal.SIGKILL)
                return
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(self._random.uniform(0.0, STOPPED_S_MAX))
            finally:
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        self.owner.leaves()

    def broken(self) -> list[float]:
        """When a task ran that may not have."""
        stamps = [
            float(line) for place in self.places for line in place.read_text().split("\n")[:-1]
        ]
        return [each for each in stamps for begin, end in self.quiet if begin <= each <= end]


def sensors_of(machine: Networked) -> int | None:
    """The process that watches for its launcher."""
    launcher = machine.pid("launcher")
    found = (
        each.pid for each in all_processes() if each.parent == launcher and is_sensor(each.pid)
    )
    return next(found, None)


def is_sensor(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == PROCESS_NAME
    return False


@pytest.fixture
def network(person) -> Iterator[Network]:
    made = Network(person, switch=Bridge())
    yield made
    made.stop()


@pytest.mark.parametrize("faults", [4, pytest.param(FAULTS, marks=pytest.mark.soak)])
def test_whoever_is_hurt_nothing_runs_under_the_owner_and_nothing_is_lost(
    network, seed, faults, record_property
):
    random = Random(seed)
    machine = with_own_terminals(network.add("desk", more=OWNER))
    network.start()
    with closing(UsedDesk(machine, random)) as desk:
        steps = [STEPS[number % len(STEPS)] for number in range(faults)]
        random.shuffle(steps)
        for step in steps:
            desk.step(step)
        until(desk.all_run, "the tasks to run again", wait_s=WAIT_S)
        desk.enough.touch()
        with machine.client() as client:
            causes = [outcome.cause for outcome in client.wait(desk.jobs)]
        assert causes == ["completed"] * TASKS
        assert [Path(f"{place}.end").read_text() for place in desk.places] == ["end\n"] * TASKS
        record_property("steps", dict(Counter(steps)))
        assert desk.broken() == []

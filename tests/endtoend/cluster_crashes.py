"""Kills and stops parts of a front end and its back ends while they work, at random moments."""

from __future__ import annotations

import os
import time
from random import Random
from typing import NamedTuple

from iriai.client import Client
from iriai.model.problem import Unreachable
from tests.endtoend.cluster import Cluster
from tests.endtoend.judge import Judge
from tests.support.waiting import until

BACK_ENDS = ("b1", "b2", "b3", "b4")
CPUS = 10
"""Of each back end: forty tasks that mostly sleep are no load for two processors."""
PAUSE_S_MAX = 1.2
"""Longer than a restart takes, so that crashes fall into it as well as into ordinary work."""
STOP_S_MAX = 8.0
"""Some stops end before the silence is noticed, and some after."""
AFTER_RETURN = 0.7
"""The part of the crashes that hits a cluster which is whole again."""


class Victim(NamedTuple):
    """Who is hurt, and how."""

    machine: str
    """`front`, or `back` for any back end."""
    part: str
    how: str
    """`kill` or `stop`."""


VICTIMS = {
    "kill-back-daemon": Victim("back", "daemon", "kill"),
    "kill-back-launcher": Victim("back", "launcher", "kill"),
    "kill-front": Victim("front", "daemon", "kill"),
    "stop-back-daemon": Victim("back", "daemon", "stop"),
    "stop-back-launcher": Victim("back", "launcher", "stop"),
    "stop-front": Victim("front", "daemon", "stop"),
}


class ClusterCrashLoop:
    """A cluster that is crashed, and the jobs that have to survive it."""

    def __init__(self, cluster: Cluster, seed: int, sleep_s: float) -> None:
        self._cluster = cluster
        self._random = Random(seed)
        self._sleep_s = sleep_s
        self.judge = Judge(cluster.front)
        self.jobs: list[str] = []
        for name in BACK_ENDS:
            cluster.add(name, cpus=CPUS)
        cluster.begin()

    def load(self, tasks: int) -> None:
        """Hand in so many tasks, and have some running everywhere."""
        self._submit(tasks)
        until(lambda: self.judge.begun() >= CPUS * len(BACK_ENDS), "the first tasks")

    def crash(self, name: str, *, queued: int = 0) -> None:
        """One crash; before it about `queued` tasks wait, where that many are wanted."""
        if self._random.random() < AFTER_RETURN:
            until(self._cluster.is_whole, "the return of all")
            self._top_up(queued)
        time.sleep(self._random.uniform(0.0, PAUSE_S_MAX))
        victim = VICTIMS[name]
        machine = "front" if victim.machine == "front" else self._random.choice(BACK_ENDS)
        if victim.how == "kill":
            self._cluster.machine(machine).kill(victim.part)
            return
        if self._cluster.machine(machine).pid(victim.part) is not None:
            with self._cluster.stopped(machine, victim.part):
                time.sleep(self._random.uniform(0.0, STOP_S_MAX))

    def finish(self) -> dict[str, int]:
        """Wait until everything has ended; returns what the judge has counted."""
        until(self._cluster.is_whole, "the return of all")
        with self._cluster.front.client() as client:
            client.wait(self.jobs)
            return self.judge.decide(client, self.jobs)

    def _top_up(self, queued: int) -> None:
        try:
            with Client.connect(self._cluster.front.state) as client:
                waiting = client.status().waiting
        except Unreachable:
            return
        if waiting < queued:
            self._submit(queued - waiting)

    def _submit(self, tasks: int) -> None:
        front = self._cluster.front
        draft = front.draft(
            *self.judge.command(self._sleep_s), array=((1, tasks, 1),), output=os.devnull
        )
        with front.client() as client:
            self.jobs.append(client.submit(draft).id)

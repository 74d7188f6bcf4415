"""Worlds of `gang_sim.py`: two logs with memory, gangs on 1,000 machines, and a flood."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace as changed

from harness.gang_replay import GangReplay, TurnJob
from harness.parallel_cluster import jobs_of
from iriai.config.reader import Configuration
from iriai.config.sections import GangSection, OrderSection, QueueMode, QueueSection
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.settings import ReplaySettings
from iriai.sim.workload.swf import read_swf

GIB = 1 << 30
MEMORY_LOG = "HPC2N"
"""The log that says what jobs need of memory."""
USED_FIELD, ASKED_FIELD = 6, 9
"""Of a line of a log, from 0: KiB for each processor."""
QUEUES = 3
LIMITS_S = (3_600.0, 36_000.0)
"""Of queues 0 and 1, where there are several: longer jobs are in the last."""
HOUR_S = 3_600.0


class Rule(NamedTuple):
    """How running tasks share machines."""

    mode: QueueMode
    rows_max: int = 1
    is_by_limit: bool = False
    """Whether jobs are in three queues by their limits; else all are in queue 0."""

    def configuration(self, age_s: float | None = HOUR_S) -> Configuration:
        """Return the configuration of a cluster that has it, in all queues."""
        queues = {str(number): QueueSection(mode=self.mode) for number in range(QUEUES)}
        gang = GangSection(rows_max=self.rows_max)
        return Configuration(queues=queues, gang=gang, order=OrderSection(age_s=age_s))

    def queue_of(self, job: LogJob) -> int:
        """Return the queue of a job."""
        return sum(job.estimate_s > limit_s for limit_s in LIMITS_S) if self.is_by_limit else 0


class Site(NamedTuple):
    """The machines of a log."""

    log: str
    machines: int
    cpus: int
    memory_bytes: int
    """Of each machine."""


RULES = {
    "easy": Rule("shared"),
    "gang_2": Rule("gang", 2),
    "gang_4": Rule("gang", 4),
    "exclusive": Rule("exclusive", is_by_limit=True),
    "shared_by_limit": Rule("shared", is_by_limit=True),
}


def needs_of(path: Path) -> dict[int, int]:
    """Return the bytes that each rank needs, by job: as asked for, else as used."""
    needs: dict[int, int] = {}
    with gzip.open(path, "rt") as lines:
        for words in (line.split() for line in lines if not line.startswith(";")):
            kib = max(0.0, float(words[ASKED_FIELD])) or float(words[USED_FIELD])
            if kib > 0:
                needs[int(words[0])] = int(kib * 1024)
    return needs


def log_of(traces: Path, name: str, jobs_max: int) -> Log:
    """Return a log, or its first jobs; 0: all."""
    log = read_swf(traces / f"{name}.swf.gz")
    return replace(log, jobs=log.jobs[:jobs_max]) if jobs_max else log


def log_world(traces: Path, site: Site, rule: Rule, jobs_max: int, seed: int) -> GangReplay:
    """Return a log on its machines, whose jobs come in the order of the log under EASY.

    What a job of it does not say about memory is drawn from what those of HPC2N say.
    """
    log = log_of(traces, site.log, jobs_max)
    needs = needs_of(traces / f"{MEMORY_LOG}.swf.gz")
    rng, drawn = Random(seed), list(needs.values())
    known = needs if site.log == MEMORY_LOG else {}
    jobs = []
    for job in log.jobs:
        need = known.get(job.number) or rng.choice(drawn)
        jobs.append(TurnJob(job, min(need, site.memory_bytes), rule.queue_of(job)))
    settings = ReplaySettings(configuration=rule.configuration())
    machines = [Resources(site.cpus, site.memory_bytes)] * site.machines
    return GangReplay(machines, settings.configuration_for(log), jobs, seed=seed)


def gang_world(machines: int, gangs: int, rule: Rule, traces: Path, seed: int) -> GangReplay:
    """Return so many gangs of 1 to 512 ranks that come within an hour, at random moments."""
    rng, drawn = Random(seed), list(needs_of(traces / f"{MEMORY_LOG}.swf.gz").values())
    memory_bytes = 2 * GIB
    jobs = []
    for job in jobs_of(gangs, seed):
        width = min(job.width, machines)
        come_s = rng.uniform(0.0, HOUR_S)
        known = LogJob(job.number, come_s, job.run_s, width, job.limit_s, job.account)
        jobs.append(TurnJob(known, min(rng.choice(drawn), memory_bytes)))
    jobs.sort(key=lambda each: each.job.submit_s)
    log = Log("gangs", machines, [each.job for each in jobs])
    configuration = ReplaySettings(configuration=rule.configuration()).configuration_for(log)
    capacities = [Resources(1, memory_bytes)] * machines
    return GangReplay(capacities, configuration, jobs, seed=seed)


class Flood(NamedTuple):
    """Jobs of ten minutes in queue 0, more than the machines can do, and some in a low queue."""

    until_s: float
    machines: int = 64
    widths: tuple[int, ...] = (1, 2, 4, 8, 16)
    load: float = 1.2
    run_s: float = 600.0
    low_width: int = 4
    low_every_s: float = 900.0
    low_queue: int = QUEUES - 1
    accounts: int = 8

    def world(self, rule: Rule, age_s: float | None, seed: int) -> GangReplay:
        """Return it under a rule; low jobs have odd numbers."""
        jobs = sorted(self._jobs(Random(seed)), key=lambda each: each.job.submit_s)
        given = rule.configuration(age_s)
        exact = changed(given.jobs, end_slack_s=0.0, kill_grace_s=0.0)
        capacities = [Resources(1, GIB)] * self.machines
        return GangReplay(capacities, changed(given, jobs=exact), jobs, seed=seed)

    def _jobs(self, rng: Random) -> Iterator[TurnJob]:
        mean = self.run_s * sum(self.widths) / len(self.widths)
        come_s, number = 0.0, 0
        while come_s < self.until_s:
            number += 2
            account = Account("lab", f"user{rng.randrange(self.accounts)}")
            yield self._job(number, come_s, rng.choice(self.widths), account, 0)
            come_s += rng.expovariate(self.load * self.machines / mean)
        for low in range(int(self.until_s / self.low_every_s)):
            account, come_s = Account("lab", "low"), low * self.low_every_s
            yield self._job(2 * low + 1, come_s, self.low_width, account, self.low_queue)

    def _job(self, number: int, come_s: float, width: int, account: Account, queue: int) -> TurnJob:
        job = LogJob(number, come_s, self.run_s, width, self.run_s, account)
        return TurnJob(job, 400 << 20, queue)

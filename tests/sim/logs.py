"""Logs for tests: small ones full of coincidences, and real ones."""

from __future__ import annotations

import csv
import gzip
from random import Random

from iriai.model.ids import Account
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.swf import read_swf
from tests.support.shared import shared


def coincidental(seed: int, *, perfect: bool = False) -> Log:
    """A log where much happens at once: equal times, gaps of nothing, jobs of the whole machine."""
    rng = Random(seed)
    processors = rng.choice((1, 2, 3, 4, 7, 16))
    crowd = rng.choice((1, 5, 20, 60))
    jobs = []
    for number in range(1, rng.randint(2, 30)):
        run_s = rng.choice((1, 1, 2, 3, 5, 8, rng.randint(1, 40)))
        estimate_s = run_s if perfect else run_s + rng.choice((0, 0, 1, 3, 10, 40))
        width = processors if rng.random() < 0.15 else rng.randint(1, processors)
        account = Account(f"g{rng.randint(1, 2)}", f"u{rng.randint(1, 4)}")
        jobs.append(LogJob(number, rng.randint(0, crowd), run_s, width, estimate_s, account))
    jobs.sort(key=lambda job: (job.submit_s, job.number))
    return Log(f"seed {seed}", processors, jobs)


def parallel(seed: int) -> tuple[Log, dict[str, int]]:
    """Such a log with two ranks or more in each job, and machines with their cpus for it."""
    log, rng = coincidental(seed, perfect=seed % 5 == 0), Random(seed)
    count, each = rng.randint(2, 6), rng.randint(1, 4)
    more = rng.randint(0, count - 1)
    cpus = count * each + more
    jobs = [
        job._replace(width=cpus if rng.random() < 0.15 else rng.randint(2, cpus))
        for job in log.jobs
    ]
    machines = {f"machine-{number}": each + (number < more) for number in range(count)}
    return Log(log.name, cpus, jobs), machines


def as_numbers(log: Log):
    """The log as the naive scheduler takes it."""
    return [(j.number, j.submit_s, j.run_s, j.width, j.estimate_s) for j in log.jobs]


def real(name: str, **options) -> Log:
    return read_swf(shared(f"traces/{name}.swf.gz"), **options)


def published_starts(name: str) -> dict[int, float]:
    """By job, from other people's simulators; the README beside the files says whose."""
    with gzip.open(shared(f"traces/{name}.starts.csv.gz"), "rt") as stream:
        return {int(row["job"]): float(row["start"]) for row in csv.DictReader(stream)}

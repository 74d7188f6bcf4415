"""Logs with reservations beside them, full of coincidences."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from iriai.sim.workload.log import Log, LogReservation
from iriai.sim.workload.reservations import in_order
from tests.sim.logs import coincidental, parallel

SCALE = 100.0
"""A reservation lasts a minute at least: seconds of the small logs count as so many."""
ASKED_UNTIL_S, AHEAD_MAX_S, LENGTH_MAX_S = 6_000, 8_000, 4_000


def hours(log: Log) -> Log:
    """The log, with a hundred seconds for each of its seconds."""
    jobs = [
        job._replace(
            submit_s=SCALE * job.submit_s,
            run_s=SCALE * job.run_s,
            estimate_s=SCALE * job.estimate_s,
        )
        for job in log.jobs
    ]
    return replace(log, jobs=jobs)


def reserving(seed: int) -> Log:
    """A log on one machine."""
    return beside(hours(coincidental(seed, perfect=seed % 5 == 0)), seed)


def reserving_machines(seed: int) -> tuple[Log, int]:
    """A log of wide jobs, and a number of machines."""
    log, machines = parallel(seed)
    return beside(hours(log), seed), len(machines)


def beside(log: Log, seed: int) -> Log:
    """The log with some reservations, many of them at moments at which others begin or end."""
    rng = Random(f"reservations of {seed}")
    if not log.jobs:
        return log
    times = [0, 1, 100, 1_000]
    asked = []
    for number in range(rng.randint(1, 8)):
        asked_s = rng.choice((rng.randint(0, ASKED_UNTIL_S), rng.choice(log.jobs).submit_s))
        start_s = asked_s + rng.choice((*times, rng.randint(0, AHEAD_MAX_S)))
        length_s = rng.choice((60, 100, 1_000, rng.randint(60, LENGTH_MAX_S)))
        times += [start_s, start_s + length_s]
        width = rng.choice((log.processors, rng.randint(1, log.processors)))
        account = rng.choice(log.jobs).account
        asked.append(LogReservation(number, asked_s, start_s, start_s + length_s, width, account))
    return replace(log, reservations=in_order(asked))

"""A moderate user beside one who hands in everything at once (paper 000, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from experiments.panel import Panel
from experiments.shares import CPUS, RUN_S
from iriai.model.ids import Account
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import ReplaySettings

FLOOD_JOBS = 2000
MODERATE_JOBS = 60
EACH_S = 317.0
"""Between two jobs of the moderate user: not a multiple of the length of the jobs, which would
have one come in whenever others end."""
CASES = {
    "fcfs": ReplaySettings(policy="fcfs"),
    "paper000": ReplaySettings(order="paper000"),
    "lottery": ReplaySettings(order="lottery"),
}
USERS = ("flooder", "moderate")


def run(seeds: Sequence[int]) -> tuple[Panel, ...]:
    """Return the mean wait of each user's jobs, by order."""
    flooder, moderate = (Account("lab", user) for user in USERS)
    jobs = [LogJob(n, 0.0, RUN_S, 1, RUN_S, flooder) for n in range(1, FLOOD_JOBS + 1)]
    jobs += [
        LogJob(FLOOD_JOBS + n, n * EACH_S, RUN_S, 1, RUN_S, moderate)
        for n in range(1, MODERATE_JOBS + 1)
    ]
    log = Log("flooder", CPUS, jobs)
    rows = []
    for settings in CASES.values():
        records = [
            record
            for seed in (seeds if settings.policy != "fcfs" else seeds[:1])  # which has no rng
            for record in replay(log, replace(settings, seed=seed))
        ]
        rows.append(
            tuple(
                fmean(r.wait_s for r in records if r.job.account == account)
                for account in (flooder, moderate)
            )
        )
    return (Panel("mean wait", "s", USERS, tuple(CASES), tuple(rows), is_logarithmic=True),)

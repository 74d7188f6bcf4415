"""A moderate user beside one who hands in everything at once (paper 000, section 2)."""

from __future__ import annotations

from statistics import fmean

from iriai.model.account import Account
from iriai.sim.experiments.backlog import CPUS, RUN_S
from iriai.sim.log import Log, LogJob
from iriai.sim.replay import replay
from iriai.sim.settings import Settings

FLOOD_JOBS = 2000
MODERATE_JOBS = 60
EACH_S = 317.0
"""Between two jobs of the moderate user: not a multiple of the length of the jobs, which would
have one come in whenever others end."""
ORDERS = ("fifo", "paper000", "lottery")


def run(seeds: int) -> dict[str, dict[str, float]]:
    """By order, the mean wait of each user's jobs, in seconds."""
    flooder, moderate = Account("lab", "flooder"), Account("lab", "moderate")
    jobs = [LogJob(n, 0.0, RUN_S, 1, RUN_S, flooder) for n in range(1, FLOOD_JOBS + 1)]
    jobs += [
        LogJob(FLOOD_JOBS + n, n * EACH_S, RUN_S, 1, RUN_S, moderate)
        for n in range(1, MODERATE_JOBS + 1)
    ]
    log = Log("flooder", CPUS, jobs)
    waits: dict[str, dict[str, float]] = {}
    for order in ORDERS:
        records = [
            record
            for seed in range(seeds if order != "fifo" else 1)
            for record in replay(log, Settings(order=order, seed=seed))
        ]
        waits[order] = {
            account.user: fmean(r.wait_s for r in records if r.job.account == account)
            for account in (flooder, moderate)
        }
    return waits

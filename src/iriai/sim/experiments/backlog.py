"""Accounts that always have work, on one machine: what share of it each gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from iriai.config.reader import Configuration
from iriai.model.account import Account
from iriai.sim.experiments.outcome import Panel
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.record import Record
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import ReplaySettings
from iriai.sim.world.rng import Rng

CPUS = 8
RUN_S = 100.0
"""Of each job, or the median of them."""
ORDERS = ("paper000", "lottery")


def shares(
    accounts: Mapping[str, int],
    configuration: Configuration,
    seed: int,
    *,
    order: str = "lottery",
    sigma: float = 0.0,
) -> dict[str, float]:
    """What each account gets until the first of them has no work left.

    `accounts` say how many jobs each hands in at the beginning, all of one cpu. With `sigma` their
    lengths are lognormal.
    """
    dice = Rng(seed, "lengths")
    jobs: list[LogJob] = []
    for account, count in accounts.items():
        group, user = account.split("/")
        for _ in range(count):
            run_s = max(1.0, dice.lognormal(RUN_S, sigma)) if sigma else RUN_S
            jobs.append(LogJob(len(jobs) + 1, 0.0, run_s, 1, run_s, Account(group, user)))
    log = Log("backlog", CPUS, jobs)
    settings = ReplaySettings(order=order, seed=seed, configuration=configuration)
    return _shares(accounts, replay(log, settings))


def _shares(accounts: Mapping[str, int], records: Sequence[Record]) -> dict[str, float]:
    last_start_s = dict.fromkeys(accounts, 0.0)
    for record in records:
        name = f"{record.job.account.group}/{record.job.account.user}"
        last_start_s[name] = max(last_start_s[name], record.start_s)
    until_s = min(last_start_s.values())
    used_s = dict.fromkeys(accounts, 0.0)
    for record in records:
        name = f"{record.job.account.group}/{record.job.account.user}"
        used_s[name] += max(0.0, min(record.end_s, until_s) - record.start_s)
    total_s = sum(used_s.values())
    return {name: seconds / total_s for name, seconds in used_s.items()}


def mean_shares(
    accounts: Mapping[str, int],
    configuration: Configuration,
    seeds: Sequence[int],
    *,
    order: str = "lottery",
    sigma: float = 0.0,
) -> dict[str, float]:
    """The mean of `shares` over seeds."""
    each = [shares(accounts, configuration, seed, order=order, sigma=sigma) for seed in seeds]
    return {name: fmean(got[name] for got in each) for name in accounts}


def share_panel(
    accounts: Mapping[str, int],
    configuration: Configuration,
    wanted: Mapping[str, float],
    seeds: Sequence[int],
) -> Panel:
    """What each account gets under each order, and what it is entitled to."""
    got = [mean_shares(accounts, configuration, seeds, order=order) for order in ORDERS]
    return Panel(
        "share of the machine",
        "%",
        tuple(accounts),
        ORDERS,
        tuple(tuple(100 * each[name] for name in accounts) for each in got),
        tuple(100 * wanted[name] for name in accounts),
    )

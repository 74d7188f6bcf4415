"""Accounts that always have work, on one machine: what share of it each gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from experiments.panel import Panel
from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection
from iriai.model.ids import Account
from iriai.sim.workload.log import Log, LogJob, Record
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
    """Return the share of each account until the first of them has no work left.

    `accounts` say how many jobs each hands in at the beginning, all of one cpu. With `sigma` their
    lengths are lognormal.
    """
    rng = Rng(seed, "lengths")
    jobs: list[LogJob] = []
    for account, count in accounts.items():
        group, user = account.split("/")
        for _ in range(count):
            run_s = max(1.0, rng.lognormal(RUN_S, sigma)) if sigma else RUN_S
            jobs.append(LogJob(len(jobs) + 1, 0.0, run_s, 1, run_s, Account(group, user)))
    log = Log("backlog", CPUS, jobs)
    settings = ReplaySettings(order=order, seed=seed, configuration=configuration)
    return _shares(accounts, replay(log, settings))


def _shares(accounts: Mapping[str, int], records: Sequence[Record]) -> dict[str, float]:
    last_start_s = dict.fromkeys(accounts, 0.0)
    for record in records:
        name = str(record.job.account)
        last_start_s[name] = max(last_start_s[name], record.start_s)
    until_s = min(last_start_s.values())
    used_s = dict.fromkeys(accounts, 0.0)
    for record in records:
        used_s[str(record.job.account)] += max(0.0, min(record.end_s, until_s) - record.start_s)
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
    """Return the mean of `shares` over seeds."""
    each = [shares(accounts, configuration, seed, order=order, sigma=sigma) for seed in seeds]
    return {name: fmean(got[name] for got in each) for name in accounts}


class ShareCase(NamedTuple):
    """Accounts and the share to which each is entitled."""

    accounts: Mapping[str, int]
    """How many jobs each submits."""
    configuration: Configuration
    wanted: Mapping[str, float]

    def run(self, seeds: Sequence[int]) -> tuple[Panel, ...]:
        """Return the share of each account, by order."""
        found = [
            mean_shares(self.accounts, self.configuration, seeds, order=order) for order in ORDERS
        ]
        values = tuple(tuple(100 * got[name] for name in self.accounts) for got in found)
        wanted = tuple(100 * self.wanted[name] for name in self.accounts)
        return (Panel("share of the machine", "%", tuple(self.accounts), ORDERS, values, wanted),)


RIGHTS = ShareCase(
    {"lab/ann": 600, "lab/bob": 600},
    Configuration(groups={"lab": GroupSection(1.0, {"ann": 1.0, "bob": 4.0})}),
    {"lab/ann": 0.2, "lab/bob": 0.8},
)
"""Two users of one group with rights 1 and 4 (paper 000, section 3)."""
GROUPS = ShareCase(
    {"large/a": 400, "large/b": 400, "large/c": 400, "small/d": 600},
    Configuration(groups={"large": GroupSection(1.0), "small": GroupSection(1.0)}),
    {"large/a": 1 / 6, "large/b": 1 / 6, "large/c": 1 / 6, "small/d": 0.5},
)
"""A group of three users beside a group of one, with equal rights (section 5.3)."""

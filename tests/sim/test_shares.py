"""Under the lottery everybody gets what is theirs: shares got beside shares wanted, many seeds.

The time integrated over is that in which each account has work. A share is of the cpu time used in
it. Jobs are of one cpu; there are more of them than are run.
"""

from __future__ import annotations

from statistics import fmean

import pytest

from iriai.model.account import Account
from iriai.model.configuration import Configuration
from iriai.model.configuration_sections import GroupSection
from iriai.sim.dice import Dice
from iriai.sim.log import Log, LogJob
from iriai.sim.replay import replay
from iriai.sim.settings import Settings

SEEDS = 12
SOAK_SEEDS = 200
CPUS = 8
RUN_S = 100.0
ONE_POINT, THREE_POINTS = 0.01, 0.03


def shares(accounts, configuration, seed, *, sigma=0.0) -> dict[str, float]:
    """What each account gets until the first of them has no work left; `accounts` say how many."""
    dice = Dice(seed, "lengths")
    jobs = []
    for account, count in accounts.items():
        for _ in range(count):
            run_s = max(1.0, dice.lognormal(RUN_S, sigma)) if sigma else RUN_S
            jobs.append(LogJob(len(jobs) + 1, 0.0, run_s, 1, run_s, Account(*account.split("/"))))
    log = Log("backlog", CPUS, jobs)
    records = replay(log, Settings(order="lottery", seed=seed, configuration=configuration))
    last_start: dict[str, float] = {}
    for record in records:
        name = f"{record.job.account.group}/{record.job.account.user}"
        last_start[name] = max(last_start.get(name, 0.0), record.start_s)
    until_s = min(last_start.values())
    used = dict.fromkeys(accounts, 0.0)
    for record in records:
        name = f"{record.job.account.group}/{record.job.account.user}"
        used[name] += max(0.0, min(record.end_s, until_s) - record.start_s)
    total_s = sum(used.values())
    return {name: used_s / total_s for name, used_s in used.items()}


def configured(**groups: GroupSection) -> Configuration:
    return Configuration(groups=groups)


RIGHTS = configured(lab=GroupSection(1.0, {"ann": 1.0, "bob": 4.0}))
GROUPS = configured(large=GroupSection(1.0), small=GroupSection(1.0))
LAB = configured(lab=GroupSection(1.0))
CASES = {
    "rights 1:4": (
        {"lab/ann": 600, "lab/bob": 600},
        RIGHTS,
        0.0,
        {"lab/ann": 0.2, "lab/bob": 0.8},
        ONE_POINT,
    ),
    "groups of 3 users and of 1": (
        {"large/a": 400, "large/b": 400, "large/c": 400, "small/d": 600},
        GROUPS,
        0.0,
        {"large/a": 1 / 6, "large/b": 1 / 6, "large/c": 1 / 6, "small/d": 0.5},
        ONE_POINT,
    ),
    "300, 1,000 and 3,000 jobs": (
        {"lab/few": 300, "lab/some": 1000, "lab/many": 3000},
        LAB,
        0.0,
        dict.fromkeys(("lab/few", "lab/some", "lab/many"), 1 / 3),
        ONE_POINT,
    ),
    "lognormal lengths": (
        {"lab/ann": 500, "lab/bob": 500},
        LAB,
        1.5,
        {"lab/ann": 0.5, "lab/bob": 0.5},
        THREE_POINTS,
    ),
}


def mean_shares(case: str, seeds: int) -> dict[str, float]:
    accounts, configuration, sigma, _, _ = CASES[case]
    each = [shares(accounts, configuration, seed, sigma=sigma) for seed in range(seeds)]
    return {name: fmean(got[name] for got in each) for name in accounts}


@pytest.mark.parametrize("case", CASES)
def test_shares_got_are_shares_wanted(case):
    assert mean_shares(case, SEEDS) == pytest.approx(CASES[case][3], abs=CASES[case][4])


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES)
def test_shares_got_are_shares_wanted_over_two_hundred_seeds(case, record_property):
    got = mean_shares(case, SOAK_SEEDS)
    record_property("shares", {name: round(share, 4) for name, share in got.items()})
    assert got == pytest.approx(CASES[case][3], abs=CASES[case][4])

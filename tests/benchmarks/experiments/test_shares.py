"""Under the lottery everybody gets what is theirs: shares got beside shares wanted, many seeds.

The time integrated over is that in which each account has work. A share is of the cpu time used in
it. Jobs are of one cpu; there are more of them than are run.
"""

from __future__ import annotations

import pytest
from experiments.shares import GROUPS, RIGHTS, mean_shares

from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection

SEEDS = 200
ONE_POINT, THREE_POINTS = 0.01, 0.03


LAB = Configuration(groups={"lab": GroupSection(1.0)})
CASES = {
    "rights 1:4": (
        RIGHTS.accounts,
        RIGHTS.configuration,
        0.0,
        RIGHTS.wanted,
        ONE_POINT,
    ),
    "groups of 3 users and of 1": (
        GROUPS.accounts,
        GROUPS.configuration,
        0.0,
        GROUPS.wanted,
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


def got(case: str, seeds: int) -> dict[str, float]:
    accounts, configuration, sigma, _, _ = CASES[case]
    return mean_shares(accounts, configuration, range(seeds), sigma=sigma)


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES)
def test_shares_got_are_shares_wanted_over_two_hundred_seeds(case, record_property):
    shares = got(case, SEEDS)
    record_property("shares", {name: round(share, 4) for name, share in shares.items()})
    assert shares == pytest.approx(CASES[case][3], abs=CASES[case][4])

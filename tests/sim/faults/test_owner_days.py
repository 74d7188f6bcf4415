"""Days whose owners come by day and hour: tasks give way by each profile, and all of them end."""

from __future__ import annotations

import pytest

from iriai.sim.faults.owner_days import FAULTS, PROFILES, day_of, fails_by_day
from iriai.sim.world.owner_days import DAY_S

SEEDS = 4


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_the_cores_pass_a_day(seed):
    assert fails_by_day(seed) is None


def test_days_have_machines_of_each_profile_and_each_fault():
    days = [day_of(seed) for seed in range(1, 30)]
    owners = [plan.configuration.owner for day in days for plan in day.plans[1:]]
    assert all(profile in owners for profile in PROFILES)
    kinds = {happening.kind for day in days for happening in day.happenings}
    assert kinds >= {*FAULTS, "owner-comes", "submit"}


def test_owners_come_within_the_day():
    for seed in range(1, 30):
        for each in day_of(seed).happenings:
            assert 0.0 <= each.at_s <= each.at_s + each.lasts_s <= DAY_S

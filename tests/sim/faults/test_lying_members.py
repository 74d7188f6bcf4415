"""Worlds in which a member lies: nobody honest is lost, and nobody's use grows without bound."""

from __future__ import annotations

import pytest

from tests.sim.lying import peers as lying_peers
from tests.sim.lying import world as lying_world

pytestmark = pytest.mark.long

SEEDS = 10


@pytest.mark.parametrize("seed", [*range(1, SEEDS), 93, 164, 167, 194, 923])
def test_no_lie_of_a_member_loses_a_machine_or_makes_use_up(seed):
    """T8a, T8b."""
    assert lying_peers.fails(seed) is None


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_no_lie_of_a_member_runs_a_task_twice_or_loses_one_elsewhere(seed):
    """T8b: whatever it altered of what it had to say, jobs of honest homes end."""
    assert lying_world.fails(seed) is None


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_they_hold_for_thousands(part):
    seeds = range(1 + part * 200, 1 + (part + 1) * 200)
    found = {seed: lying_peers.fails(seed) or lying_world.fails(seed) for seed in seeds}
    assert {seed: message for seed, message in found.items() if message} == {}

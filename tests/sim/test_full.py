"""Every message, and the policy alone: with nothing that takes time both start jobs alike."""

from __future__ import annotations

import pytest

from iriai.sim.full import simulate
from iriai.sim.policies import POLICIES
from iriai.sim.replay import replay
from iriai.sim.settings import Settings
from tests.sim.logs import coincidental
from tests.support.shared import ROOT

GENERATED = 60


@pytest.mark.parametrize("policy", POLICIES)
def test_both_modes_start_every_job_at_the_same_time(policy):
    for seed in range(GENERATED):
        log = coincidental(seed, perfect=seed % 5 == 0)
        settings = Settings(policy=policy, is_checked=seed % 6 == 0)
        assert simulate(log, settings) == replay(log, settings), f"seed {seed}"


def test_a_policy_from_a_file_decides_alike_in_both_modes():
    for seed in range(20):
        log = coincidental(seed)
        settings = Settings(policy=f"{ROOT}/examples/fifo.py:Fifo")
        assert simulate(log, settings) == replay(log, settings), f"seed {seed}"

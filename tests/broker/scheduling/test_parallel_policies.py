"""Tasks of several ranks under each policy and order: promises hold, caps count all seats."""

from __future__ import annotations

import pytest

from iriai.config.sections import OrderSection
from tests.broker.waiting_ranks import WaitingRanks

GENERATED = 60


@pytest.mark.parametrize("policy", ["none", "easy", "easy-sjbf", "conservative"])
@pytest.mark.parametrize("order", ["fifo", "lottery", "stride"])
def test_every_task_starts_whole_and_no_promise_is_moved_later(order, policy):
    for seed in range(GENERATED):
        section = OrderSection(name=order, backfill=policy)
        WaitingRanks(seed, section, is_alike=seed % 3 == 0).run()


@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize("order", ["fifo", "lottery"])
def test_no_account_runs_more_than_its_cap_on_all_its_seats(order, policy):
    for seed in range(GENERATED):
        section = OrderSection(name=order, backfill=policy, running_cap_cpus=8)
        WaitingRanks(seed, section).run()

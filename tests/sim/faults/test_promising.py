"""In calm worlds reservations come while tasks wait that were promised their starts."""

from __future__ import annotations

import pytest

from iriai.sim.faults import scenario as scenarios
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.search import fails

CALM = (54, 76, 99)


@pytest.fixture(autouse=True)
def _all_reserve(monkeypatch):
    monkeypatch.setattr(scenarios, "RESERVATION_CHANCE", 1.0)


@pytest.mark.parametrize("seed", CALM)
def test_all_jobs_have_limits_there(seed):
    scenario = scenarios.scenario_of(seed)
    submitted = [each.submission for each in scenario.happenings if each.submission is not None]
    assert scenario.is_calm
    assert submitted
    assert all(each.limit_s is not None for each in submitted)


def test_heads_wait_with_a_promise_when_reservations_are_sought(monkeypatch):
    promised = []
    whole = Checker._check_promises

    def noting(checker, machine):
        whole(checker, machine)
        if checker._reservations.has_offers and checker._promises:
            promised.append(machine)

    monkeypatch.setattr(Checker, "_check_promises", noting)
    assert [fails(scenarios.scenario_of(seed)) for seed in CALM] == [None] * len(CALM)
    assert len(promised) > 10

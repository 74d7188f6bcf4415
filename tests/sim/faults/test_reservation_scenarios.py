"""Users of the simulator reserve; their jobs inside can end on the machines that stay."""

from __future__ import annotations

import pytest

from iriai.protocol.messages.effects import Part
from iriai.sim.faults import scenario as scenarios
from iriai.sim.faults.search import fails

SEEDS = 100
SOAK_SEEDS = 10_000


@pytest.fixture(autouse=True)
def _all_reserve(monkeypatch):
    monkeypatch.setattr(scenarios, "RESERVATION_CHANCE", 1.0)


def jobs_inside(scenario):
    asked = (each.submission for each in scenario.happenings if each.submission is not None)
    return [each for each in asked if each.reservation is not None]


def cpus_that_stay(scenario):
    left = [each.machine for each in scenario.happenings if each.kind == "gone"]
    nodes = (plan for plan in scenario.plans if Part.NODE in plan.parts)
    return [plan.capacity.cpus for plan in nodes if plan.name not in left]


def test_a_job_inside_fits_on_the_machines_that_stay():
    jobs = 0
    for seed in range(301, 401):
        scenario = scenarios.scenario_of(seed)
        for job in jobs_inside(scenario):
            jobs += 1
            held = sum(cpus // job.cpus for cpus in cpus_that_stay(scenario))
            assert job.shape.least <= held, f"seed {seed}: {job}"
    assert jobs > 100


@pytest.mark.parametrize("seed", [1610, 1768])
def test_no_job_waits_for_machines_that_are_never_there(seed):
    """It was to wait on after its reservation: the third machine had left; it needed two of the
    large ones, and there was one."""
    assert fails(scenarios.scenario_of(seed)) is None


def failing(seeds):
    found = {seed: fails(scenarios.scenario_of(seed)) for seed in seeds}
    return {seed: message for seed, message in found.items() if message}


@pytest.mark.long
@pytest.mark.parametrize("first", range(1, SEEDS + 1, 10))
def test_the_cores_pass_where_all_reserve(first):
    assert failing(range(first, first + 10)) == {}


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_they_pass_thousands_where_all_reserve(part):
    begin = 1 + part * SOAK_SEEDS // 20
    assert failing(range(begin, begin + SOAK_SEEDS // 20)) == {}

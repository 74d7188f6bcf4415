"""Users of the simulator reserve; what outlasts a reservation can end on the machines that stay."""

from __future__ import annotations

import pytest

from iriai.protocol.messages.effects import Part
from iriai.sim.faults import scenario as scenarios
from iriai.sim.faults.search import fails


@pytest.fixture(autouse=True)
def _all_reserve(monkeypatch):
    monkeypatch.setattr(scenarios, "RESERVATION_CHANCE", 1.0)


def lasting_jobs(scenario):
    asked = (each.submission for each in scenario.happenings if each.submission is not None)
    return [each for each in asked if each.reservation is not None and each.or_queue]


def cpus_that_stay(scenario):
    left = [each.machine for each in scenario.happenings if each.kind == "gone"]
    nodes = (plan for plan in scenario.plans if Part.NODE in plan.parts)
    return [plan.capacity.cpus for plan in nodes if plan.name not in left]


def test_a_job_that_outlasts_its_reservation_fits_on_the_machines_that_stay():
    jobs = 0
    for seed in range(301, 401):
        scenario = scenarios.scenario_of(seed)
        for job in lasting_jobs(scenario):
            jobs += 1
            held = sum(cpus // job.cpus for cpus in cpus_that_stay(scenario))
            assert job.shape.least <= held, f"seed {seed}: {job}"
    assert jobs > 100


def test_nobody_waits_for_a_machine_that_never_comes_back():
    """A job of three ranks was to wait on after its reservation, and the third machine had left."""
    assert fails(scenarios.scenario_of(1610)) is None

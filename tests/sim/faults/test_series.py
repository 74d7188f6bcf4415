"""Series in the simulator: their occurrences are made, refused and left out, whatever dies."""

from __future__ import annotations

import pytest

from iriai.model.reservation import ReservationEnd
from iriai.sim.faults import scenario as scenarios
from iriai.sim.faults import series
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.scenario import FAULTS_UNTIL_S
from iriai.sim.faults.search import HEALED_S, play
from iriai.sim.world.repeated_times import LEFT_OUT, repeated_times, rule_of


@pytest.fixture(autouse=True)
def _all_repeat(monkeypatch):
    monkeypatch.setattr(scenarios, "RESERVATION_CHANCE", 1.0)
    monkeypatch.setattr(series, "SERIES_CHANCE", 1.0)


def occurrences_of(seed: int):
    """Play a seed; return the occurrences that its homes made."""
    scenario = scenarios.scenario_of(seed)
    world = scenario.world()
    calm_from_s = FAULTS_UNTIL_S + HEALED_S
    play(world, scenario, Checker(world, is_calm=scenario.is_calm, calm_from_s=calm_from_s))
    kept = [each for home in world.machines.values() for each in home.store.reservations.values()]
    assert all(each.is_over for each in kept)
    return [each for each in kept if each.is_occurrence]


def test_seeds_have_occurrences_of_every_fate():
    made = [each for seed in range(1, 13) for each in occurrences_of(seed)]
    assert {each.end for each in made} == set(ReservationEnd)
    assert any(LEFT_OUT in str(each.reasons) for each in made)
    assert len(made) > 20


def test_a_rule_of_the_simulator_says_when_and_which_is_left_out():
    times = list(repeated_times(rule_of(60.0, 3, 2), "", 1000.0))
    assert [each.start_wall_s for each in times] == [1000.0, 1060.0, 1120.0]
    assert [bool(each.problem) for each in times] == [False, True, False]

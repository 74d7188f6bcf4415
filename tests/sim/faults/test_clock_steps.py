"""Wall clocks are set in stories with reservations; once the faults stop they are right again."""

from __future__ import annotations

import pytest

from iriai.sim.faults import clock_steps
from iriai.sim.faults import scenario as scenarios
from iriai.sim.faults.search import fails
from iriai.sim.world.clock import WALL_S, Clock


@pytest.fixture(autouse=True)
def _all_are_set(monkeypatch):
    monkeypatch.setattr(scenarios, "RESERVATION_CHANCE", 1.0)
    monkeypatch.setattr(clock_steps, "STEPS_CHANCE", 1.0)


def steps(seed: int) -> list[float]:
    happenings = scenarios.scenario_of(seed).happenings
    return [each.lasts_s for each in happenings if each.kind == "clock-steps"]


def test_clocks_are_set_forward_and_back_by_seconds_to_an_hour():
    found = [by_s for seed in range(1, 41) for by_s in steps(seed)]
    assert min(found) < -300.0
    assert max(found) > 300.0
    assert any(abs(by_s) < 5.0 for by_s in found)
    assert all(1.0 <= abs(by_s) <= 3_600.0 for by_s in found)


@pytest.mark.parametrize("seed", [1, 36, 58, 156])
def test_nothing_is_given_away_twice_when_clocks_are_set(seed):
    """A booking that a step closed, a task that started in one just before; a home an hour ahead;
    seats that were held."""
    assert steps(seed)
    assert fails(scenarios.scenario_of(seed)) is None


def test_a_clock_shows_what_it_showed_before_it_was_set():
    clock = Clock().stepped(10.0, 100.0).stepped(20.0, -30.0)
    assert [clock.at(s).wall_s - WALL_S for s in (9.0, 10.0, 20.0)] == [9.0, 110.0, 90.0]
    assert clock.at(20.0).steady_s == 20.0
    assert clock.set_right(30.0).at(30.0).wall_s == WALL_S + 30.0
    assert clock.stepped_s == 130.0
    assert clock.was_stepped(25.0, 5.0)
    assert not clock.was_stepped(26.0, 5.0)
    assert Clock().set_right(5.0) == Clock()

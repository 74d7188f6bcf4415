"""Two reservations that are changed to the same time at once: one stays as it was."""

from __future__ import annotations

from iriai.home.reservations.modification import Modification
from iriai.sim.faults import scenario
from iriai.sim.faults.scenario import scenario_of
from iriai.sim.faults.search import fails


def test_of_two_that_want_the_same_time_one_gets_it(monkeypatch):
    came_about: list[str] = []
    refused: list[str] = []

    def noting(method, into):
        whole = getattr(Modification, method)

        def noted(modification, reservation, *rest):
            into.append(modification._stored.named(reservation.number))
            return whole(modification, reservation, *rest)

        monkeypatch.setattr(Modification, method, noted)

    monkeypatch.setattr(scenario, "RESERVATION_CHANCE", 1.0)
    monkeypatch.setattr(scenario, "CONTESTED_CHANCE", 1.0)
    noting("_confirm", came_about)
    noting("_refuse", refused)

    assert [fails(scenario_of(seed)) for seed in (3, 6)] == [None] * 2
    assert came_about
    assert refused

"""In worlds of faults machines that are away are forgotten, and some of them come back."""

import pytest

from iriai.broker.core import Broker
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.scenario import scenario_of
from iriai.sim.faults.search import fails
from tests.sim.cluster import cluster, front, run
from tests.sim.electing import elected

pytestmark = pytest.mark.long

seeds = pytest.mark.parametrize(
    "seeds", [range(1, 31), pytest.param(range(31, 51), marks=pytest.mark.soak)]
)


@seeds
def test_machines_are_forgotten_in_worlds_of_faults(monkeypatch, seeds):
    """What the invariants of other tests are checked on does happen there."""
    forgotten: list[str] = []
    forget = Broker.forget_machine

    def seen(broker, machine, now):
        is_known = machine in broker.state.machines
        forget(broker, machine, now)
        broker.check()
        forgotten.extend([machine] * is_known)

    monkeypatch.setattr(Broker, "forget_machine", seen)
    assert [seed for seed in seeds if fails(scenario_of(seed))] == []
    assert forgotten


@seeds
def test_machines_are_forgotten_with_their_entries_in_worlds_of_faults(monkeypatch, seeds):
    dropped: list[str] = []
    forget = Broker.member_forgotten

    def seen(broker, machine, now):
        was_known = machine in broker.state.machines
        forget(broker, machine, now)
        broker.check()
        dropped.extend([machine] * (was_known and machine not in broker.state.machines))

    monkeypatch.setattr(Broker, "member_forgotten", seen)
    assert [seed for seed in seeds if fails(elected(seed))] == []
    assert dropped


def test_a_broker_that_goes_on_without_one_of_its_machines_is_found_out():
    world = cluster()
    checker = Checker(world)
    run(world, 1.0)
    checker.check_end()
    state = front(world).core.broker.state
    state.drop_machine(state.machines["b2"], world.now_s)
    with pytest.raises(AssertionError, match="the broker does not know b2"):
        checker.check_end()

"""In worlds of faults machines that are away are forgotten, and some of them come back."""

from iriai.broker.core import Broker
from iriai.sim.faults import fails
from iriai.sim.scenario import scenario_of

SEEDS = range(1, 31)


def test_machines_are_forgotten_in_worlds_of_faults(monkeypatch):
    """What the invariants of other tests are checked on does happen there."""
    forgotten: list[str] = []
    forget = Broker.forget_machine

    def seen(broker, machine, now):
        is_known = machine in broker.state.machines
        forget(broker, machine, now)
        broker.check()
        forgotten.extend([machine] * is_known)

    monkeypatch.setattr(Broker, "forget_machine", seen)
    assert [seed for seed in SEEDS if fails(scenario_of(seed))] == []
    assert forgotten


def test_machines_are_forgotten_with_their_entries_in_worlds_of_faults(monkeypatch):
    dropped: list[str] = []
    forget = Broker.member_forgotten

    def seen(broker, machine, now):
        was_known = machine in broker.state.machines
        forget(broker, machine, now)
        broker.check()
        dropped.extend([machine] * (was_known and machine not in broker.state.machines))

    monkeypatch.setattr(Broker, "member_forgotten", seen)
    assert [seed for seed in SEEDS if fails(scenario_of(seed, is_elected=True))] == []
    assert dropped

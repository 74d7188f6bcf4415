"""A machine that says another capacity each time leaves nothing of the earlier ones."""

from __future__ import annotations

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import MachineView
from iriai.model.resources import Resources


def test_a_machine_that_changes_its_capacity_again_and_again_takes_the_room_of_one():
    index = MachineIndex()
    index.put(MachineView("other", Resources(2), mints=False))
    for cpus in range(1, 50):
        index.put(MachineView("liar", Resources(cpus), mints=False))
    index.check()
    assert index.capacities() == [Resources(2), Resources(49)]
    index.drop(index.views["liar"])
    index.check()
    assert index.capacities() == [Resources(2)]

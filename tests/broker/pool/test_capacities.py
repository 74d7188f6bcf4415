"""A machine that says another capacity each time leaves nothing of the earlier ones."""

from __future__ import annotations

from iriai.broker.pool.machine_view import MachineView
from iriai.broker.pool.pool import MachinePool
from iriai.model.resources import Resources


def test_a_machine_that_changes_its_capacity_again_and_again_takes_the_room_of_one():
    pool = MachinePool()
    pool.put(MachineView("other", Resources(2), mints=False))
    for cpus in range(1, 50):
        pool.put(MachineView("liar", Resources(cpus), mints=False))
    pool.check()
    assert pool.capacities() == [Resources(2), Resources(49)]
    pool.drop(pool.views["liar"])
    pool.check()
    assert pool.capacities() == [Resources(2)]

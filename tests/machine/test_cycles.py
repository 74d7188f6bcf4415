"""Several machines: who stands is what the broker says, and no other machine."""

from __future__ import annotations

import pytest

from iriai.config.reader import Configuration
from iriai.config.sections import QueueSection
from iriai.model.resources import Resources
from iriai.model.turn import NEVER
from iriai.protocol.messages.effects import Delivered, Part
from iriai.protocol.messages.scheduling import ClaimTurn, Cycle
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.world import World
from tests.sim.cluster import LAN, front, run, submit

MODES = Configuration(queues={"0": QueueSection(mode="exclusive")})


def cluster() -> World:
    world = World(1, LAN)
    world.add(MachinePlan("front", parts=(Part.HOME, Part.BROKER), configuration=MODES))
    for name in ("b1", "b2"):
        world.add(MachinePlan(name, Resources(2), (Part.NODE,), "front", MODES))
    run(world, 5.0)
    for _ in range(2):
        submit(world, run_s=20.0, cpus=2)
    run(world, 2.0)
    return world


@pytest.mark.parametrize(("sender", "stands"), [("front", True), ("b2", False), ("oni", False)])
def test_a_machine_believes_nobody_but_the_broker_that_it_follows(sender, stands):
    world = cluster()
    machine = world.machines["b1"]
    [attempt] = machine.core.node.running()
    cycle = Cycle(99, turns=(ClaimTurn(attempt, NEVER),))
    world.network.on_arrival(machine, Delivered(sender, Part.NODE, cycle))
    run(world, 0.001)
    assert (attempt in machine.core.node.suspended) is stands


def test_what_stands_though_the_broker_does_not_know_why_goes_on():
    """As if an earlier broker had said it: the next whole report is compared with what is known."""
    world = cluster()
    machine = world.machines["b1"]
    [attempt] = machine.core.node.running()
    cycle = Cycle(99, turns=(ClaimTurn(attempt, NEVER),))
    world.network.on_arrival(machine, Delivered("front", Part.NODE, cycle))
    world.network.break_all_of("b1")
    run(world, 40.0)
    assert not machine.core.node.running()
    assert len(front(world).store.results) == 2

"""A change of queues reaches every daemon, also one that stands still while it is made."""

from __future__ import annotations

from iriai.sim.faults.actions import HEARD_S, Happening, enter
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.world import World


def starting(world: World, name: str) -> frozenset[int]:
    broker = world.machines[name].core.broker
    return broker.state.settings.configuration.starting_queues


def test_a_daemon_that_stood_still_when_a_queue_was_opened_again_hears_of_it():
    world = World()
    world.add(MachinePlan("ume"))
    for happening in (
        Happening(1.0, "queue-stops", "ume", 10.0, number=1),
        Happening(8.0, "daemon-stops", "ume", 20.0),
    ):
        enter(world, happening)
    world.run_until(7.0)
    assert 1 not in starting(world, "ume")
    world.run_until(27.0)
    assert 1 not in starting(world, "ume"), "it stands still"
    world.run_until(28.0 + HEARD_S)
    assert 1 in starting(world, "ume")

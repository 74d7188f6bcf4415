"""Short tasks through a front end, over links that take time."""

from __future__ import annotations

from collections import Counter

import pytest

from iriai.protocol.messages.effects import Send
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.world import World
from tests.sim.cluster import cluster, front, run, submit

A_HOST = NetworkPlan(latency_s=0.001, jitter_s=0.0005)
CPUS = 64
TASKS = 2000
RUN_S = 0.02


def count_messages(world: World) -> Counter[str]:
    """By kind, of all machines from now on."""
    counts: Counter[str] = Counter()
    send = world.network.send

    def counted(sender: SimulatedMachine, message: Send) -> None:
        counts[type(message.message).__name__] += 1
        send(sender, message)

    for machine in world.machines.values():
        machine.on_send = counted
    return counts


@pytest.mark.parametrize("back_ends", [1, 2, 4])
def test_the_way_costs_less_than_the_tasks(back_ends):
    # What came ahead took places for which others were under way; these were refused, and after
    # three refusals a machine stood still for a second.
    world = cluster(back_ends, cpus=CPUS // back_ends, network=A_HOST)
    counts = count_messages(world)
    submit(world, tasks=TASKS, run_s=RUN_S)
    run(world, 3.0 * TASKS * RUN_S / CPUS)
    assert len(front(world).store.results) == TASKS
    assert counts["Refusal"] == 0
    assert counts["Run"] == TASKS

"""Owners and choosy jobs on simulated machines: who runs where, however load and messages go."""

from __future__ import annotations

import pytest

from iriai.model.ad import machine_ad
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import LoadMeasured, Part
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.world import World
from tests.sim.cluster import causes, front, run, starts, submit

LOSSY = NetworkPlan(latency_s=0.01, jitter_s=0.05, notice_s=2.0)
OWNERS = {
    "ken": 'TARGET.Owner == "ann"',
    "ume": "LoadAvg < 1",
    "ivy": "",
}


def pool(seed: int = 1) -> World:
    """A front end and three back ends of two cpus, each with an owner."""
    world = World(seed, LOSSY)
    world.add(MachinePlan("front", parts=(Part.HOME, Part.BROKER)))
    for mips, (name, owner) in enumerate(OWNERS.items(), 1):
        static = {"MyType": "Machine", "Machine": name, "Arch": "X86_64", "Mips": mips}
        plan = MachinePlan(
            name,
            Resources(2, 1 << 30),
            parts=(Part.NODE,),
            broker_at="front",
            ad=machine_ad(static, owner),
            sync_s=0.01,
        )
        world.add(plan)
    world.run_until(5.0)
    return world


def load(world: World, name: str, average: float) -> None:
    machine = world.machines[name]
    machine.inbox.append(LoadMeasured(average, average))
    machine.turn(world.now_s)


@pytest.mark.parametrize("seed", range(3))
def test_everybody_runs_where_both_sides_want_it(seed):
    world = pool(seed)
    anns = submit(world, tasks=6, rank="-Mips")
    eves = submit(world, tasks=6, user="eve")
    choosy = submit(world, tasks=3, user="eve", requirements='Machine != "ivy"')
    run(world, 200.0)
    assert [causes(world, job) for job in (anns, eves, choosy)] == [
        ["completed"] * 6,
        ["completed"] * 6,
        ["completed"] * 3,
    ]
    assert "ken" in starts(world, anns)
    assert "ken" not in starts(world, eves)
    assert set(starts(world, choosy)) == {"ume"}


def test_an_owner_who_comes_back_is_left_alone_and_the_job_starts_when_the_load_is_gone():
    world = pool()
    load(world, "ume", 3.0)
    run(world, 1.0)
    job = submit(world, user="eve", requirements='Machine == "ume"')
    run(world, 300.0)
    assert causes(world, job) == []
    load(world, "ume", 0.0)
    run(world, 60.0)
    assert causes(world, job) == ["completed"]


def test_the_node_refuses_what_the_broker_could_not_know_yet():
    world = pool()
    machine = world.machines["ume"]
    load(world, "ume", 0.9)
    run(world, 5.0)
    job = submit(world, user="eve", requirements='Machine == "ume"')
    load(world, "ume", 1.05)  # too little more to be told, and too much for the owner
    run(world, 60.0)
    assert causes(world, job) == []
    assert front(world).core.broker.state.machines["ume"].load == 1.05
    assert machine.core.node.running() == []

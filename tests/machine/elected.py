"""Machines that elect their broker, each with all parts, in virtual time; checked all the time."""

from __future__ import annotations

from iriai.model.ids import JobId
from iriai.model.resources import Resources
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.world import World
from tests.machine.watched_cluster import check
from tests.sim.cluster import LAN

CLUSTER = "lab"


def elected(count: int = 5, *, cpus: int = 1, network: NetworkPlan = LAN, seed: int = 1, **plans):
    """Machines m0, m1, ...; `plans` has what is different about one, by its name."""
    world = World(seed, network)
    for number in range(count):
        name = f"m{number}"
        fields = {"capacity": Resources(cpus, 1 << 30), "cluster": CLUSTER}
        world.add(MachinePlan(name, **(fields | plans.get(name, {}))))
    world.watchers.append(lambda _machine, _turn, _now: check(world))
    world.run_until(20.0)
    return world


def brokers(world: World) -> list[str]:
    """Who takes itself for the broker."""
    return [name for name, each in up(world).items() if each.core.broker_at == name]


def followed(world: World) -> dict[str, str]:
    """Whom each machine follows."""
    return {name: each.core.broker_at for name, each in up(world).items()}


def up(world: World) -> dict[str, SimulatedMachine]:
    return {name: each for name, each in world.machines.items() if each.is_up}


def broker(world: World) -> SimulatedMachine:
    """The only one."""
    [name] = brokers(world)
    return world.machines[name]


def has_ended(world: World, job: JobId) -> bool:
    return job.number in world.machines[job.home].store.finished

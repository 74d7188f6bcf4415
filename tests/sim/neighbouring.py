"""Several clusters that elect a broker each, in virtual time, checked all the time."""

from __future__ import annotations

from functools import partial
from typing import Any

from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Send
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.world import World
from tests.machine.watched_cluster import check
from tests.sim.cluster import LAN


def clusters(*names: str, machines: int = 2, network: NetworkPlan = LAN, seed: int = 1, **plans):
    """Clusters of so many machines with a cpu each: west0, west1, ...; `plans` as in `elected`."""
    world = World(seed, network, through_wire=True)
    for name in names:
        for number in range(machines):
            its = f"{name}{number}"
            fields = {"capacity": Resources(1, 1 << 30), "cluster": name}
            world.add(MachinePlan(its, **(fields | plans.get(its, {}))))
    world.watchers.append(lambda _machine, _turn, _now: check(world))
    world.run_until(60.0)  # all know all, and what is free
    return world


def overhear(world: World, kind: type) -> list:
    """The messages of a kind that are sent from now on."""
    heard: list = []
    for machine in world.machines.values():
        machine.on_send = partial(_hears, heard, kind, machine.on_send)
    return heard


def _hears(heard: list, kind: type, send: Any, sender: SimulatedMachine, each: Send) -> None:
    if type(each.message) is kind:
        heard.append(each.message)
    send(sender, each)


def broker_of(world: World, cluster: str) -> SimulatedMachine:
    """Whoever takes itself for the broker of a cluster; there is one."""
    [found] = [
        machine
        for name, machine in world.machines.items()
        if machine.is_up and machine.plan.cluster == cluster and machine.core.broker_at == name
    ]
    return found


def started(world: World, cluster: str) -> int:
    """Tasks that were started in a cluster so far."""
    return sum(
        len(machine.launcher.starts)
        for machine in world.machines.values()
        if machine.plan.cluster == cluster
    )

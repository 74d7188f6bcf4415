"""A front end with back ends in virtual time that is watched: invariants hold after every turn."""

from __future__ import annotations

from iriai.machine.cluster_checks import check_cluster
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World
from tests.sim.cluster import LAN, cluster


def watched(back_ends: int = 2, **options) -> World:
    """The cluster of tests/sim, checked."""
    options.setdefault("network", LAN)
    world = cluster(back_ends, **options)
    world.watchers.append(lambda _machine, _turn, _now: check(world))
    return world


def check(world: World) -> None:
    """What the parts believe, and what runs."""
    up = {name: machine for name, machine in world.machines.items() if machine.is_up}
    clocks = {name: machine.clock.at(world.now_s) for name, machine in up.items()}
    check_cluster({name: machine.core for name, machine in up.items()}, clocks)
    running: dict[object, tuple[str, object]] = {}
    for name, machine in world.machines.items():
        for attempt, process in machine.launcher.running.items():
            if slept_over(machine, world.now_s, process):
                continue
            known = running.setdefault(attempt.task, (name, attempt))
            assert known == (name, attempt), f"{attempt} on {name} beside {known}"


def slept_over(machine: SimulatedMachine, now_s: float, process) -> bool:
    """Whether nobody could end the process in time: the exception of invariant (b)."""
    is_away = machine.launcher.is_stopped or not machine.launcher.is_up
    return is_away and process.lease_end_s <= now_s

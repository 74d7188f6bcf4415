"""Several machines: use costs what the front end says, whatever a back end's own file has."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.scheduling import Charging
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.world import World
from tests.broker.lone_broker import LoneBroker
from tests.machine.watched_cluster import check
from tests.sim.cluster import LAN, front, run, submit


def charging(idle_weight: float) -> Configuration:
    return Configuration(order=OrderSection(idle_weight=idle_weight))


def cluster() -> World:
    """Three for each second of a cpu; the back ends' own files say one, and seven."""
    world = World(1, LAN)
    parts = (Part.HOME, Part.BROKER)
    world.add(MachinePlan("front", parts=parts, configuration=charging(3.0)))
    for name, weight in (("b1", 1.0), ("b2", 7.0)):
        plan = MachinePlan(name, Resources(2), (Part.NODE,), "front", charging(weight))
        world.add(plan)
    world.watchers.append(lambda _machine, _turn, _now: check(world))
    run(world, 5.0)
    return world


def charges(world: World, *jobs) -> dict[str, float]:
    """By machine, of ended tasks."""
    numbers = [job.number for job in jobs]
    results = front(world).store.results.values()
    return {each.machine: each.charge_s for each in results if each.attempt.number in numbers}


def test_a_second_costs_the_same_on_every_machine():
    world = cluster()
    jobs = [submit(world, run_s=20.0, cpus=2) for _ in range(2)]
    run(world, 30.0)
    assert charges(world, *jobs) == {"b1": pytest.approx(120.0), "b2": pytest.approx(120.0)}


def test_a_back_end_that_comes_back_is_told_again():
    world = cluster()
    world.power_off(world.machines["b2"])
    run(world, 10.0)
    world.power_on(world.machines["b2"])
    run(world, 5.0)
    jobs = [submit(world, run_s=20.0, cpus=2) for _ in range(2)]
    run(world, 30.0)
    assert charges(world, *jobs)["b2"] == pytest.approx(120.0)


def test_a_machine_that_charges_alike_is_told_nothing():
    broker = LoneBroker()
    alike = Charging(*(getattr(OrderSection(), name) for name in Charging.__struct_fields__))
    assert broker.tell(broker.idle(charging=alike)).node == []
    assert broker.tell(broker.idle(charging=replace(alike, gpu_weight=9.0))).node == [alike]
    assert broker.tell(broker.idle()).node == []  # of a machine that says nothing of it

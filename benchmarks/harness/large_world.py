"""A large world for measurements: one front end, many back ends, many short jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from iriai.broker.core import Broker
from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.home.core import Home
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.node.core import Node
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import Work, plain_job
from iriai.sim.world.world import World

FRONT = "front"
LAN = NetworkPlan(latency_s=0.0005, jitter_s=0.001, notice_s=1.0)
ACCOUNTS = 20
BEGIN_S = 10.0


def large_world(machines: int, jobs: int, seed: int = 1) -> World:
    """Return a world in which single tasks arrive for as long as the machines need for them."""
    world = World(seed, LAN)
    configuration = Configuration(order=OrderSection(offpeak_factor=1.0))
    world.add(MachinePlan(FRONT, parts=(Part.HOME, Part.BROKER), configuration=configuration))
    for number in range(machines):
        plan = MachinePlan(
            f"b{number}",
            Resources(2, 8 << 30),
            (Part.NODE,),
            FRONT,
            configuration,
        )
        world.add(plan)
    rng = Rng(seed, "load")
    span_s = jobs * 60.0 / (machines * 2)
    for _ in range(jobs):
        account = Account("lab", f"u{rng.below(ACCOUNTS)}")
        spec = plain_job(account, Resources(1), 300.0)
        work = Work(rng.between(30.0, 90.0))
        come_in = partial(world.submit, FRONT, spec, work)
        world.agenda.at(BEGIN_S + rng.between(0.0, span_s), come_in)
    return world


def run_to_the_end(world: World) -> None:
    """Run until every submitted job has ended."""
    front = world.machines[FRONT]
    while world.now_s < BEGIN_S or front.core.home.jobs or len(world.accepted) == 0:
        world.run_until(world.now_s + 10.0)


def counted_handles() -> Callable[[], int]:
    """Count from now on what the parts of all machines are told; return how to read the count."""
    handles = 0

    def counting(take: Callable[..., object]) -> Callable[..., object]:
        def count(*arguments: object) -> object:
            nonlocal handles
            handles += 1
            return take(*arguments)

        return count

    parts: tuple[Any, ...] = (Node, Home, Broker)
    for part in parts:
        part.take = counting(part.take)
    return lambda: handles

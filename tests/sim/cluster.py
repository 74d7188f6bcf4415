"""A front end with back ends in virtual time, and what stories do with them."""

from __future__ import annotations

from iriai.model.ids import Account, JobId
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.sim.world.clock import Clock
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.work import Work
from iriai.sim.world.world import ZERO_DELAY, World

LEASE_S = 30.0
LAN = NetworkPlan(latency_s=0.001, jitter_s=0.004, notice_s=2.0)


def cluster(
    back_ends: int = 3,
    *,
    cpus: int = 2,
    network: NetworkPlan = ZERO_DELAY,
    seed: int = 1,
    clocks: dict[str, Clock] | None = None,
    **options,
) -> World:
    """Home and broker on `front`, nodes on `b1`, `b2`, ...; every link is up."""
    world = World(seed, network, **options)
    clocks = clocks or {}
    world.add(MachinePlan("front", parts=(Part.HOME, Part.BROKER)), clocks.get("front"))
    for number in range(1, back_ends + 1):
        name = f"b{number}"
        plan = MachinePlan(
            name, Resources(cpus, 1 << 30), parts=(Part.NODE,), broker_at="front", sync_s=0.01
        )
        world.add(plan, clocks.get(name))
    world.run_until(5.0)
    return world


def submit(
    world: World,
    home: str = "front",
    *,
    tasks: int = 1,
    cpus: int = 1,
    run_s: float = 10.0,
    user: str = "ann",
    **spec,
) -> JobId:
    """Hand a job in."""
    if tasks > 1:
        spec |= {"array": ((1, tasks, 1),), "is_array": True}
    spec.setdefault("lease_s", LEASE_S)
    job = world.submit(
        home,
        JobSpec(Account("lab", user), user, "job", ("true",), "/", Resources(cpus), **spec),
        Work(run_s),
    )
    assert job is not None
    return job


def run(world: World, seconds: float) -> None:
    world.run_until(world.now_s + seconds)


def front(world: World) -> SimulatedMachine:
    return world.machines["front"]


def causes(world: World, job: JobId) -> list[str]:
    """How each attempt of a job ended, in order."""
    results = front(world).store.results.values()
    return [result.cause for result in results if result.attempt.number == job.number]


def starts(world: World, job: JobId) -> list[str]:
    """The machine of each start of a task of `job`."""
    return [
        name
        for name, machine in world.machines.items()
        for attempt in machine.launcher.starts
        if attempt.number == job.number
    ]

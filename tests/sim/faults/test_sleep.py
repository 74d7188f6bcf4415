"""A laptop that sleeps past its leases: its task was run again once, and does not go on there."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace as with_fields

from iriai.config.sections import OwnerSection
from iriai.model.ids import JobId
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.sleeping import DELAY_S, sleeps
from iriai.sim.world.machine_model import DEFAULTS, MachinePlan, SimulatedMachine
from iriai.sim.world.world import World
from tests.sim.cluster import LEASE_S, causes, cluster, front, run, starts, submit

CONTINUE_S = 5.0
LAPTOP = OwnerSection(suspend=0.0, resume=CONTINUE_S, vacate=inf)
RUN_S = 60.0


def add(world: World, name: str, owner: OwnerSection = DEFAULTS.owner) -> SimulatedMachine:
    configuration = with_fields(DEFAULTS, owner=owner)
    plan = MachinePlan(
        name,
        Resources(1, 1 << 30),
        parts=(Part.NODE,),
        broker_at="front",
        configuration=configuration,
    )
    return world.add(plan)


@pytest.fixture
def story() -> tuple[World, Checker, SimulatedMachine, JobId]:
    """A task runs on a laptop, and there is another machine."""
    world = cluster(0)
    laptop, other = add(world, "laptop", LAPTOP), add(world, "b1")
    checker = Checker(world)
    world.power_off(other)
    run(world, CONTINUE_S + 1.0)
    job = submit(world, run_s=RUN_S)
    run(world, 2.0)
    assert starts(world, job) == ["laptop"]
    world.power_on(other)
    run(world, 2.0)
    return world, checker, laptop, job


def test_what_sleeps_past_its_lease_was_run_again_once(story):
    world, checker, laptop, job = story
    sleeps(world, laptop, 3 * LEASE_S, is_announced=False)
    run(world, 3 * LEASE_S - 1.0)
    assert starts(world, job) == ["laptop", "b1"]
    run(world, 2.0)
    assert not laptop.launcher.running
    assert laptop.core.node.unavailable() is not None
    run(world, 2 * RUN_S)
    assert (starts(world, job), causes(world, job)[-1]) == (["laptop", "b1"], "completed")
    assert laptop.core.node.unavailable() is None
    checker.check_end()


def test_what_is_told_before_leaves_at_once(story):
    world, checker, laptop, job = story
    sleeps(world, laptop, 8 * 3600.0, is_announced=True)
    run(world, DELAY_S)
    assert starts(world, job) == ["laptop", "b1"]
    run(world, RUN_S)
    assert causes(world, job) == ["evicted", "completed"]
    checker.check_end()


def test_a_short_sleep_loses_nothing_and_the_task_stands_until_its_owner_has_not_come(story):
    world, checker, laptop, job = story
    sleeps(world, laptop, LEASE_S / 3, is_announced=False)
    run(world, LEASE_S / 3 + 0.5)
    (process,) = laptop.launcher.running.values()
    assert not process.executes(world.now_s)
    run(world, CONTINUE_S + 1.0)
    assert process.executes(world.now_s)
    run(world, 2 * RUN_S)
    assert (starts(world, job), causes(world, job)) == (["laptop"], ["completed"])
    assert front(world).core.home.jobs == {} or not front(world).core.home.jobs[job.number].active
    checker.check_end()

"""Machines on which every task fails within a moment, in virtual time: how many they swallow."""

from __future__ import annotations

import pytest

from iriai.broker.health.failure_attribution import PAUSE_MAX_S, FailureAttribution
from iriai.broker.state.state import BrokerState
from iriai.model.state import EndCause
from iriai.sim.faults.scenario import scenario_of
from iriai.sim.faults.search import fails
from iriai.sim.world.world import World
from tests.sim.cluster import LAN, causes, cluster, front, run, starts, submit

pytestmark = pytest.mark.long

MACHINES, HOLES = 20, ("b3", "b11")
TASKS, RUN_S = 400, 20.0


def holes(seed: int) -> World:
    """Twenty machines of one cpu each; the program is missing on two of them."""
    world = cluster(MACHINES, cpus=1, network=LAN, seed=seed)
    for name in HOLES:
        world.machines[name].launcher.fails_at_once = True
    return world


def swallowed(world: World, *jobs) -> int:
    return sum(causes(world, job).count(EndCause.FAILED) for job in jobs)


def finish(world: World, *jobs, tasks: int) -> None:
    while sum(len(causes(world, job)) for job in jobs) < tasks:
        run(world, 10.0)
        assert world.now_s < 3600.0, "they wait for ever"


@pytest.mark.parametrize("seed", range(3))
def test_they_swallow_few_tasks_of_one_users_array(seed):
    world = holes(seed)
    job = submit(world, tasks=TASKS, run_s=RUN_S)
    finish(world, job, tasks=TASKS)
    assert swallowed(world, job) < 0.2 * TASKS


def test_and_of_two_users_arrays():
    world = holes(1)
    jobs = [submit(world, tasks=TASKS, run_s=RUN_S, user=user) for user in ("ann", "bob")]
    finish(world, *jobs, tasks=2 * TASKS)
    assert swallowed(world, *jobs) < 0.2 * 2 * TASKS


def test_a_broker_that_does_not_look_gives_them_the_queue(monkeypatch):
    """What this is for: the same world, and most tasks fall in."""
    monkeypatch.setattr(FailureAttribution, "_failed_at_once", lambda *_: None)
    world = holes(1)
    job = submit(world, tasks=TASKS, run_s=RUN_S)
    finish(world, job, tasks=TASKS)
    assert swallowed(world, job) > 0.8 * TASKS


def test_a_machine_that_was_mended_works_again_in_time():
    world = holes(2)
    job = submit(world, tasks=TASKS, run_s=RUN_S)
    run(world, 100.0)
    for name in HOLES:
        world.machines[name].launcher.fails_at_once = False
    before = [starts(world, job).count(name) for name in HOLES]
    run(world, PAUSE_MAX_S + 2 * RUN_S)
    assert all(starts(world, job).count(name) > n for name, n in zip(HOLES, before, strict=True))
    assert not any(front(world).core.broker.failing_on(name) for name in HOLES)


def test_a_script_that_fails_everywhere_is_run_as_fast_as_ever():
    world = cluster(MACHINES, cpus=1, network=LAN)
    good = submit(world, tasks=MACHINES // 2, run_s=300.0, user="bob")
    run(world, 1.0)
    assert len(starts(world, good)) == MACHINES // 2
    for machine in world.machines.values():
        machine.launcher.fails_at_once = True
    job = submit(world, tasks=TASKS)
    run(world, 30.0)
    assert causes(world, job) == [EndCause.FAILED] * TASKS
    assert causes(world, good) == []  # it does well there all the time


def test_tasks_are_kept_away_from_them_in_worlds_of_faults(monkeypatch):
    """What the invariants of other tests are checked on does happen there."""
    kept_away: list[str] = []
    keep_away = BrokerState.exclude

    def seen(state, machine, *arguments):
        kept_away.append(machine)
        keep_away(state, machine, *arguments)

    monkeypatch.setattr(BrokerState, "exclude", seen)
    assert [seed for seed in range(1, 31) if fails(scenario_of(seed))] == []
    assert kept_away

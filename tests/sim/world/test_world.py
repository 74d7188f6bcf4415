"""Several machines in one world: what a front end and its back ends live through."""

from __future__ import annotations

import pytest

from iriai.protocol.messages.effects import Part
from iriai.sim.world.clock import Clock
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.world import World
from tests.sim.cluster import LAN, LEASE_S, causes, cluster, front, run, starts, submit


def test_work_spreads_over_the_back_ends():
    world = cluster(3, cpus=2)
    job = submit(world, tasks=6)
    run(world, 1.0)
    assert sorted(starts(world, job)) == ["b1", "b1", "b2", "b2", "b3", "b3"]
    run(world, 20.0)
    assert causes(world, job) == ["completed"] * 6
    assert front(world).settled == [job.number]


def story(seed: int, *, through_wire: bool = False) -> list[tuple[str, float, float]]:
    world = cluster(3, network=LAN, seed=seed, through_wire=through_wire)
    submit(world, tasks=20, run_s=7.0)
    submit(world, tasks=20, run_s=3.0, user="bob")
    run(world, 12.0)
    world.power_off(world.machines["b2"])
    run(world, 500.0)
    results = front(world).store.results.values()
    return [(str(r.attempt), r.started_wall_s, r.ended_wall_s) for r in results]


def test_one_seed_is_one_story():
    assert story(3) == story(3)
    assert story(3) != story(4)


def test_messages_mean_the_same_after_they_went_through_the_wire():
    assert story(3, through_wire=True) == story(3)


def test_a_back_end_that_dies_has_its_work_repeated_after_the_lease():
    world = cluster(2, cpus=1, network=LAN)
    job = submit(world, run_s=20.0)
    run(world, 5.0)
    [name] = starts(world, job)
    world.power_off(world.machines[name])
    run(world, LEASE_S)
    assert causes(world, job) == []
    run(world, 60.0)
    assert causes(world, job) == ["lost", "completed"]
    assert len(set(starts(world, job))) == 2


def test_a_daemon_that_dies_leaves_its_tasks_alone():
    world = cluster(1, network=LAN)
    job = submit(world, run_s=20.0)
    run(world, 5.0)
    world.go_down(world.machines["b1"])
    run(world, 5.0)
    world.start_machine(world.machines["b1"])
    run(world, 30.0)
    assert causes(world, job) == ["completed"]
    assert len(starts(world, job)) == 1


def test_a_front_end_that_comes_back_takes_its_jobs_up_again():
    world = cluster(2, network=LAN)
    jobs = [submit(world, run_s=20.0) for _ in range(8)]
    run(world, 5.0)
    world.go_down(front(world))
    run(world, 10.0)
    world.start_machine(front(world))
    run(world, 100.0)
    assert [causes(world, job) for job in jobs] == [["completed"]] * 8
    assert all(len(starts(world, job)) == 1 for job in jobs)


def test_a_partition_longer_than_the_lease_ends_the_task_there_before_it_starts_elsewhere():
    world = cluster(2, cpus=1, network=LAN)
    job = submit(world, run_s=100.0)
    run(world, 5.0)
    [name] = starts(world, job)
    world.network.cut("front", name)
    run(world, LEASE_S * 2)
    assert [len(m.launcher.running) for n, m in world.machines.items() if n == name] == [0]
    assert len(starts(world, job)) == 2
    world.network.heal("front", name)
    run(world, 200.0)
    assert causes(world, job) == ["lost", "completed"]


def test_clocks_that_differ_change_nothing():
    clocks = {"b1": Clock(5e6, -3600.0, 0.004), "b2": Clock(17.0, 3600.0, -0.004)}
    world = cluster(2, network=LAN, clocks=clocks)
    jobs = [submit(world, run_s=100.0) for _ in range(4)]
    run(world, 300.0)
    assert [causes(world, job) for job in jobs] == [["completed"]] * 4


def test_two_machines_that_can_only_connect_outwards_are_not_joined():
    world = World()
    world.add(MachinePlan("front", outward_only=True))
    with pytest.raises(ValueError, match="one must be reachable"):
        world.add(MachinePlan("b1", parts=(Part.NODE,), broker_at="front", outward_only=True))


def test_a_crash_loses_what_was_not_synced_and_never_more():
    """The id of a job is told when the job is durable, and not before."""
    world = World()
    machine = world.add(MachinePlan("ume", sync_s=0.5))
    world.run_until(5.0)
    early = submit(world, "ume")
    world.run_until(5.4)
    assert early not in world.accepted
    world.run_until(6.0)
    assert early in world.accepted
    late = submit(world, "ume")
    world.run_until(6.1)
    world.go_down(machine)
    world.start_machine(machine)
    assert list(machine.store.accepted) == [early.number]
    assert late not in world.accepted

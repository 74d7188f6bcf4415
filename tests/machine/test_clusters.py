"""Several machines: whatever is lost and whoever dies, no two attempts of a task live at a time.

A lease is 30 s; the home's is over after 30.3 s and the grace of 10 s. Invariants are checked after
every turn of every machine.
"""

from __future__ import annotations

import pytest

from iriai.protocol.messages.scheduling import Run
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.world import World
from tests.machine.watched_cluster import watched
from tests.sim.cluster import LEASE_S, causes, front, run, starts, submit

HOME_LEASE_S = LEASE_S * 1.01 + 10.0


def place(world: World, job) -> str:
    """Where the job runs."""
    [name] = starts(world, job)
    return name


def is_over(world: World, *jobs) -> bool:
    return all(job.number in front(world).store.finished for job in jobs)


# --- a back end ----------------------------------------------------------------------------------


def test_a_back_end_that_dies_has_its_work_repeated_elsewhere():
    world = watched(cpus=1)
    job = submit(world, run_s=20.0)
    run(world, 5.0)
    world.power_off(world.machines[place(world, job)])
    run(world, HOME_LEASE_S - 10.0)
    assert causes(world, job) == []
    run(world, 40.0)
    assert causes(world, job) == ["lost", "completed"]


def test_a_back_end_that_comes_back_soon_says_what_became_of_its_tasks():
    world = watched(1)
    job = submit(world, run_s=20.0)
    run(world, 5.0)
    world.power_off(world.machines["b1"])
    run(world, 3.0)
    world.power_on(world.machines["b1"])
    run(world, 5.0)
    assert causes(world, job) == ["lost"]
    run(world, 30.0)
    assert causes(world, job) == ["lost", "completed"]


def test_a_stopped_daemon_costs_no_task_while_its_lease_lasts():
    world = watched(1)
    job = submit(world, run_s=25.0)
    run(world, 5.0)
    machine = world.machines["b1"]
    machine.is_stopped = True
    run(world, 15.0)
    machine.is_stopped = False
    world.touch(machine)
    run(world, 20.0)
    assert causes(world, job) == ["completed"]


def test_a_daemon_stopped_past_the_lease_finds_its_task_ended_by_the_launcher():
    world = watched(2, cpus=1)
    job = submit(world, run_s=100.0)
    run(world, 5.0)
    machine = world.machines[place(world, job)]
    machine.is_stopped = True
    world.network.break_all_of(machine.plan.name)
    run(world, LEASE_S + 1.0)
    assert not machine.launcher.running
    run(world, 20.0)
    assert len(set(starts(world, job))) == 2
    machine.is_stopped = False
    world.touch(machine)
    run(world, 120.0)
    assert causes(world, job) == ["lost", "completed"]
    assert machine.store.claims == {}


def test_a_launcher_stopped_past_the_lease_ends_its_tasks_before_anything_else():
    world = watched(2, cpus=1)
    job = submit(world, run_s=300.0)
    run(world, 5.0)
    machine = world.machines[place(world, job)]
    machine.launcher.stop(world.now_s)
    machine.is_stopped = True
    world.network.break_all_of(machine.plan.name)
    run(world, 60.0)
    assert len(starts(world, job)) == 2  # the exception: it cannot be helped while it sleeps
    machine.is_stopped = False
    machine.wake_launcher(world.now_s)
    world.touch(machine)
    assert not machine.launcher.running
    run(world, 400.0)
    assert causes(world, job) == ["lost", "completed"]


def test_leases_are_renewed_as_long_as_the_link_lasts():
    world = watched(1)
    job = submit(world, run_s=LEASE_S * 10)
    run(world, LEASE_S * 11)
    assert causes(world, job) == ["completed"]
    assert len(starts(world, job)) == 1


def test_a_link_that_breaks_for_less_than_the_lease_costs_nothing():
    world = watched(1)
    jobs = [submit(world, run_s=run_s) for run_s in (8.0, 60.0)]
    run(world, 5.0)
    world.network.cut("front", "b1")
    run(world, 12.0)
    world.network.heal("front", "b1")
    run(world, 80.0)
    assert [causes(world, job) for job in jobs] == [["completed"]] * 2
    assert [len(starts(world, job)) for job in jobs] == [1, 1]


def test_a_task_cancelled_while_its_machine_is_away_is_stopped_when_it_is_back():
    world = watched(1)
    job = submit(world, run_s=1000.0)
    run(world, 5.0)
    world.network.cut("front", "b1")
    run(world, 1.0)
    front(world).core.home.cancel(job.number, (), "ann")
    front(world).asked()
    world.touch(front(world))
    run(world, 5.0)
    world.network.heal("front", "b1")
    run(world, 5.0)
    assert causes(world, job) == ["cancelled"]
    assert is_over(world, job)


def test_a_first_start_after_a_long_idle_time_waits_for_the_home_alone():
    world = watched(1)
    run(world, 1000.0)
    job = submit(world, run_s=1.0)
    run(world, 2.0)
    assert causes(world, job) == ["completed"]


def test_a_run_that_arrives_after_its_lease_starts_nothing():
    """The daemon sleeps with the `Run` unread, and its home has long repeated the attempt."""
    world = watched(2, cpus=1)
    for name in ("b1", "b2"):
        world.machines[name].is_stopped = name == "b1"
    job = submit(world, run_s=500.0)
    run(world, 3.0)
    first = world.machines["b1"]
    if starts(world, job):  # it was placed on the other: the next one goes where it is to go
        job = submit(world, run_s=500.0)
        run(world, 3.0)
    [run_unread] = [each.message for each in first.inbox if isinstance(each.message, Run)]
    assert run_unread.attempt.number == job.number
    world.network.break_all_of("b1")
    run(world, HOME_LEASE_S + 10.0)
    assert causes(world, job) == ["lost"]
    first.is_stopped = False
    world.touch(first)
    run(world, 5.0)
    assert not [a for a in first.launcher.starts if a.number == job.number and a.attempt == 1]


# --- the front end -------------------------------------------------------------------------------


@pytest.mark.parametrize("away_s", [2.0, 20.0])
def test_a_front_end_that_restarts_takes_running_tasks_up_again(away_s):
    world = watched()
    jobs = [submit(world, run_s=run_s) for run_s in (5.0, 28.0)]
    run(world, 3.0)
    world.go_down(front(world))
    run(world, away_s)
    world.start_machine(front(world))
    run(world, 60.0)
    assert [causes(world, job) for job in jobs] == [["completed"]] * 2
    assert [len(starts(world, job)) for job in jobs] == [1, 1]


def test_a_front_end_away_past_the_lease_finds_its_tasks_lost_and_repeats_them():
    world = watched(1)
    job = submit(world, run_s=60.0)
    run(world, 5.0)
    world.go_down(front(world))
    run(world, LEASE_S * 2)
    assert not world.machines["b1"].launcher.running
    world.start_machine(front(world))
    run(world, 90.0)
    assert causes(world, job) == ["lost", "completed"]


def test_a_restarted_front_end_waits_for_a_machine_that_does_not_answer():
    world = watched(2, cpus=1)
    job = submit(world, run_s=20.0)
    run(world, 5.0)
    world.power_off(world.machines[place(world, job)])
    world.go_down(front(world))
    world.start_machine(front(world))
    run(world, HOME_LEASE_S - 1.0)
    assert len(starts(world, job)) == 1
    run(world, 40.0)
    assert causes(world, job) == ["lost", "completed"]


# --- messages lost at every point ----------------------------------------------------------------


def tell_apart(world: World, count: int, mishap) -> None:
    """Have `mishap` happen once, when so many messages have been sent."""
    network, send = world.network, world.network.send
    ahead = [mishap]

    def counting(sender, message) -> None:
        send(sender, message)
        if network.sent == count and ahead:
            world.agenda.after(0.0, ahead.pop())

    for machine in world.machines.values():
        machine.on_send = counting


def small_story(count: int, mishap, **options) -> World:
    """Three tasks on two machines; after `count` messages something happens."""
    world = watched(2, cpus=1, **options)
    before = world.network.sent
    tell_apart(world, before + count, lambda: mishap(world))
    jobs = [submit(world, run_s=4.0, user=user) for user in ("ann", "bob", "eve")]
    run(world, 200.0)
    assert is_over(world, *jobs), [causes(world, job) for job in jobs]
    for job in jobs:
        assert causes(world, job)[-1] == "completed"
        assert front(world).store.finished[job.number].cause == "completed"
    assert all(not machine.launcher.running for machine in world.machines.values())
    assert all(not machine.store.claims for machine in world.machines.values())
    return world


MESSAGES = 32
"""The story has a few less; a mishap after its last message is none."""


def test_the_story_without_a_mishap_has_not_more_messages():
    world = watched(2, cpus=1)
    before = world.network.sent
    for user in ("ann", "bob", "eve"):
        submit(world, run_s=4.0, user=user)
    run(world, 20.0)
    assert 15 <= world.network.sent - before <= MESSAGES


@pytest.mark.parametrize("count", range(1, MESSAGES + 1))
def test_a_link_may_break_after_any_message(count):
    world = small_story(count, lambda world: world.network.break_all_of("front"))
    assert sum(len(machine.launcher.starts) for machine in world.machines.values()) == 3


@pytest.mark.parametrize("count", range(1, MESSAGES + 1))
def test_the_front_end_may_die_after_any_message(count):
    def die(world):
        world.go_down(front(world))
        world.agenda.after(1.0, lambda: world.start_machine(front(world)))

    world = small_story(count, die)
    assert sum(len(machine.launcher.starts) for machine in world.machines.values()) == 3


@pytest.mark.parametrize("kept_turns", [0, 1])
@pytest.mark.parametrize("count", range(1, MESSAGES + 1))
def test_a_back_end_may_die_after_any_message(count, kept_turns):
    def die(world):
        machine = world.machines["b1"]
        world.go_down(machine, kept_turns)
        world.agenda.after(1.0, lambda: world.start_machine(machine))

    world = small_story(count, die)
    assert sum(len(machine.launcher.starts) for machine in world.machines.values()) == 3


@pytest.mark.parametrize("count", range(1, MESSAGES + 1))
def test_a_back_end_may_lose_its_power_after_any_message(count):
    def die(world):
        machine = world.machines["b1"]
        world.power_off(machine)
        world.agenda.after(1.0, lambda: world.power_on(machine))

    small_story(count, die)


@pytest.mark.parametrize("count", range(1, MESSAGES + 1))
def test_messages_may_be_overtaken_by_others_and_come_twice(count):
    """Not by a link, which is in order: by whatever will carry messages some day."""
    scrambled = NetworkPlan(0.001, 0.004, 2.0, repeat=0.2, late=0.2, late_s=50.0)
    small_story(count, lambda world: world.network.heal_all(), network=scrambled, seed=count)

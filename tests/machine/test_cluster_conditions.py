"""Several machines: where work goes when one is drained, loaded by others, or quiet."""

from __future__ import annotations

import pytest

from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import LoadMeasured, Part
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.world import World
from tests.machine.watched_cluster import check, watched
from tests.sim.cluster import LAN, causes, front, run, starts, submit


def measure(world: World, **loads: float) -> None:
    """What the sensors of back ends find; none of it is ours."""
    for name, load in loads.items():
        world.arrive(world.machines[name], LoadMeasured(load, load))
    run(world, 0.1)


def drain(world: World, name: str) -> None:
    machine = world.machines[name]
    machine.core.node.drain("new disk", "ann", machine.clock.at(world.now_s))
    machine.asked()
    world.touch(machine)
    run(world, 0.1)


def resume(world: World, name: str) -> None:
    machine = world.machines[name]
    machine.core.node.resume("ann", machine.clock.at(world.now_s))
    machine.asked()
    world.touch(machine)
    run(world, 0.1)


def rules(world: World, job) -> list[Rule]:
    machine = front(world)
    reasons = machine.core.explain(job.number, machine.clock.at(world.now_s))
    return [reason.rule for reason in reasons]


def test_a_drained_machine_finishes_what_it_runs_and_gets_nothing_more():
    world = watched(2, cpus=1)
    first = [submit(world, run_s=20.0) for _ in range(2)]
    run(world, 2.0)
    drain(world, "b1")
    later = [submit(world, run_s=5.0) for _ in range(3)]
    run(world, 60.0)
    assert [causes(world, job) for job in first] == [["completed"]] * 2
    assert {name for job in later for name in starts(world, job)} == {"b2"}


def test_where_all_are_drained_a_job_waits_and_is_told_so():
    world = watched(1)
    drain(world, "b1")
    job = submit(world)
    run(world, 5.0)
    assert Rule.DRAINED in rules(world, job)
    resume(world, "b1")
    run(world, 20.0)
    assert causes(world, job) == ["completed"]


def test_a_drain_outlives_the_daemon():
    world = watched(1)
    drain(world, "b1")
    world.power_off(world.machines["b1"])
    world.power_on(world.machines["b1"])
    run(world, 5.0)
    job = submit(world)
    run(world, 5.0)
    assert starts(world, job) == []


def test_a_foreign_load_keeps_a_machine_free():
    world = World(1, LAN)
    world.add(MachinePlan("front", parts=(Part.HOME, Part.BROKER)))
    for name in ("b1", "b2"):
        world.add(MachinePlan(name, Resources(2), (Part.NODE,), "front", load_max=0.5))
    world.watchers.append(lambda _machine, _turn, _now: check(world))
    run(world, 5.0)
    measure(world, b1=1.5, b2=0.5)
    jobs = [submit(world, run_s=5.0) for _ in range(6)]
    run(world, 30.0)
    assert {name for job in jobs for name in starts(world, job)} == {"b2"}
    measure(world, b1=0.7)
    jobs = [submit(world, run_s=5.0) for _ in range(4)]
    run(world, 10.0)
    assert {name for job in jobs for name in starts(world, job)} == {"b1", "b2"}


def test_off_peak_work_is_charged_by_the_factor_and_across_the_change_by_parts():
    world = watched(2, cpus=2)
    measure(world, b1=0.0, b2=0.0)
    quiet = submit(world, run_s=40.0, cpus=2)
    across = submit(world, run_s=80.0, cpus=2)
    run(world, 50.0)
    measure(world, b1=2.0, b2=2.0)
    peak = submit(world, run_s=40.0, cpus=2)
    run(world, 60.0)
    results = {result.attempt.number: result for result in front(world).store.results.values()}
    assert results[quiet.number].charge_s == pytest.approx(40.0)
    assert results[quiet.number].factors == ((0.5, pytest.approx(40.0)),)
    assert results[peak.number].charge_s == pytest.approx(80.0)
    assert results[peak.number].factors == ((1.0, pytest.approx(40.0)),)
    [(_, quiet_s), (_, peak_s)] = results[across.number].factors
    assert quiet_s == pytest.approx(50.0, abs=1.0)
    assert results[across.number].charge_s == pytest.approx(quiet_s + 2 * peak_s)


def test_a_machine_that_is_cut_off_charges_in_full_after_a_minute():
    world = watched(1)
    measure(world, b1=0.0)
    job = submit(world, run_s=200.0, lease_s=1200.0)
    run(world, 10.0)
    world.network.cut("front", "b1")
    run(world, 150.0)
    world.network.heal("front", "b1")
    run(world, 60.0)
    [result] = front(world).store.results.values()
    assert result.attempt.number == job.number
    peak_s = sum(seconds for factor, seconds in result.factors if factor == 1.0)
    assert 90.0 <= peak_s <= 150.0


def test_each_machine_may_be_a_home_and_its_jobs_run_on_any():
    """All parts everywhere but the broker: leases between each two, none within a machine."""
    world = World(1, LAN)
    world.add(MachinePlan("a", Resources(1)))
    for name in ("b", "c"):
        world.add(MachinePlan(name, Resources(1), (Part.NODE, Part.HOME), "a"))
    world.watchers.append(lambda _machine, _turn, _now: check(world))
    run(world, 5.0)
    jobs = [submit(world, home, tasks=3, run_s=40.0) for home in ("a", "b", "c")]
    run(world, 10.0)
    world.go_down(world.machines["b"])
    run(world, 5.0)
    world.start_machine(world.machines["b"])
    world.network.cut("a", "c")
    run(world, 15.0)
    world.network.heal("a", "c")
    run(world, 400.0)
    for job in jobs:
        assert world.machines[job.home].store.finished[job.number].cause == "completed"
    assert {name for job in jobs for name in starts(world, job)} == {"a", "b", "c"}


def test_the_next_task_of_a_reserved_job_is_promised_when_the_first_starts():
    """There is room for less on another machine, so that places are kept."""
    world = World(1, LAN)
    world.add(MachinePlan("front", parts=(Part.HOME, Part.BROKER)))
    for name, cpus in (("b1", 4), ("b2", 2)):
        world.add(MachinePlan(name, Resources(cpus), (Part.NODE,), "front"))
    run(world, 5.0)
    submit(world, cpus=4, run_s=8.0, time_limit_s=10.0)
    run(world, 1.0)
    number = submit(world, user="bob", cpus=4, tasks=2, run_s=15.0, time_limit_s=20.0).number
    run(world, 1.0)
    job = front(world).core.home.job(number)
    first_s = job.promised_wall_s
    assert first_s is not None
    run(world, 8.0)
    assert (job.active, job.ready) == (1, 1)
    assert job.promised_wall_s is not None
    assert job.promised_wall_s > first_s

"""A cluster without a head: one broker at a time, succeeded and refilled, and many homes."""

from __future__ import annotations

import pytest

from iriai.model.ids import Account
from iriai.model.reason import Rule
from iriai.protocol.messages.candidates import BrokerCandidate, ranked
from iriai.protocol.messages.effects import UsageLearned
from iriai.protocol.messages.scheduling import Match
from iriai.sim.world.clock import WALL_S
from iriai.sim.world.network import NetworkPlan
from tests.machine.elected import CLUSTER, broker, brokers, elected, followed, has_ended, up
from tests.sim.cluster import run, submit

LOSSY = NetworkPlan(0.005, 0.02, 2.0, loss=0.1, repeat=0.05)


def rank(world) -> tuple[str, ...]:
    return ranked(CLUSTER, (BrokerCandidate(name) for name in world.machines))


def starts(world) -> int:
    return sum(len(machine.launcher.starts) for machine in world.machines.values())


def test_all_follow_the_first_of_the_rank():
    world = elected()
    assert set(followed(world).values()) == {rank(world)[0]}


def test_jobs_of_any_home_run_anywhere():
    world = elected(4)
    jobs = [submit(world, f"m{number % 4}", run_s=5.0) for number in range(12)]
    run(world, 30.0)
    assert all(has_ended(world, job) for job in jobs)
    assert {len(machine.launcher.starts) for machine in world.machines.values()} == {3}
    assert starts(world) == 12


def test_the_next_in_line_begins_within_seconds_and_is_told_everything():
    world = elected()
    jobs = [submit(world, f"m{number % 5}", run_s=12.0) for number in range(15)]
    run(world, 6.0)
    world.go_down(broker(world))
    run(world, 7.0)
    second = broker(world)
    assert second.plan.name == rank(world)[1]
    assert set(followed(world).values()) == {second.plan.name}
    assert all(name in second.core.broker.state.machines for name in up(world))
    run(world, 6.0)
    assert starts(world) > 5  # it hands out what waits
    world.start_machine(world.machines[rank(world)[0]])
    run(world, 120.0)
    assert all(has_ended(world, job) for job in jobs)
    assert starts(world) == 15


def test_the_first_of_the_rank_takes_over_again_when_it_is_back():
    world = elected()
    first = broker(world)
    world.go_down(first)
    run(world, 20.0)
    world.start_machine(first)
    run(world, 12.0)
    assert set(followed(world).values()) == {first.plan.name}


def test_two_candidates_may_die_at_a_time():
    world = elected()
    for name in rank(world)[:2]:
        world.go_down(world.machines[name])
    run(world, 15.0)
    assert set(followed(world).values()) == {rank(world)[2]}


def test_a_broker_that_slept_begins_anew():
    world = elected()
    first = broker(world)
    job = submit(world, rank(world)[3], run_s=40.0)
    run(world, 2.0)
    world.stop(first)
    run(world, 3.0)
    world.network.break_all_of(first.plan.name)
    run(world, 9.0)
    [second] = [name for name in brokers(world) if name != first.plan.name]
    assert second == rank(world)[1]
    term = first.core.broker.sessions.term
    world.wake(first)
    run(world, 10.0)
    assert set(followed(world).values()) == {first.plan.name}
    assert first.core.broker.sessions.term > term
    assert len(first.core.broker.state.machines) == 5
    run(world, 40.0)
    assert has_ended(world, job)


def test_each_half_of_a_cluster_that_is_cut_has_its_broker_and_then_there_is_one():
    world = elected(6)
    halves = rank(world)[::2], rank(world)[1::2]
    for one in halves[0]:
        for other in halves[1]:
            world.network.cut(one, other)
    run(world, 15.0)
    jobs = [submit(world, name, run_s=3.0) for name in rank(world)]
    run(world, 15.0)
    assert all(has_ended(world, job) for job in jobs)
    world.network.heal_all()
    run(world, 15.0)
    assert set(followed(world).values()) == {rank(world)[0]}


def test_outward_only_and_unsteady_machines_are_passed_over():
    first, second = rank(elected(4))[:2]
    world = elected(4, **{first: {"outward_only": True}})
    assert set(followed(world).values()) == {second}
    job = submit(world, first, run_s=5.0)
    run(world, 10.0)
    assert has_ended(world, job)


def test_a_suspicion_of_a_broker_that_speaks_changes_nothing():
    world = elected()
    first = broker(world)
    term = first.core.broker.sessions.term
    world.members.suspect(first, 30.0)
    for _ in range(40):
        run(world, 1.0)
        assert brokers(world) == [first.plan.name]
    assert first.core.broker.sessions.term == term
    assert set(followed(world).values()) == {first.plan.name}


def test_a_new_broker_starts_nothing_before_half_the_nodes_and_all_homes_have_told():
    world = elected()
    for number in range(5):
        submit(world, f"m{number}", run_s=100.0)
    late = rank(world)[4]
    waiting = submit(world, rank(world)[3], run_s=1.0)
    run(world, 5.0)
    world.stop(world.machines[late])  # it tells nothing, and nobody has noticed yet
    world.go_down(broker(world))
    run(world, 5.0)
    reasons = []
    for _ in range(40):
        run(world, 0.1)
        for machine in up(world).values():
            if machine.core.broker_at == machine.plan.name and not machine.is_stopped:
                now = machine.clock.at(world.now_s)
                reasons += machine.core.broker.explain(waiting, now)[:1]
    assert reasons[0].rule is Rule.BROKER_NEW
    world.network.break_all_of(late)
    run(world, 5.0)
    assert (
        broker_of(world, rank(world)[1]).explain(waiting, clock(world, rank(world)[1]))[0].rule
        is not Rule.BROKER_NEW
    )


def broker_of(world, name: str):
    return world.machines[name].core.broker


def clock(world, name: str):
    return world.machines[name].clock.at(world.now_s)


def test_a_new_broker_does_not_wait_for_the_one_whose_silence_made_it_the_broker():
    world = elected()
    dead = broker(world)
    world.go_down(dead)
    while len(brokers(world)) == 0:
        run(world, 0.1)
    job = submit(world, rank(world)[3], run_s=0.1)
    run(world, 2.0)
    # It knows five homes, and the fifth will tell it nothing.
    assert dead.plan.name in {peer.name for peer in broker(world).core._election.peers}
    assert has_ended(world, job)


def test_a_home_asks_the_broker_why_a_job_waits():
    world = elected(3)
    home = world.machines[rank(world)[2]]
    for _ in range(3):
        submit(world, home.plan.name, run_s=100.0)
    waiting = submit(world, home.plan.name, run_s=1.0)
    run(world, 2.0)
    assert home.core.ask_why(waiting.number, home.clock.at(world.now_s)) is None
    home.asked()
    world.touch(home)
    run(world, 1.0)
    assert home.explanations[waiting.number][0].rule is Rule.MACHINE_BUSY


def test_every_broker_draws_with_what_a_machine_counted_that_is_gone():
    world = elected(4)
    account = Account("lab", "ann")
    gone = world.machines[rank(world)[3]]
    submit(world, gone.plan.name, run_s=30.0)
    run(world, 40.0)
    [counted] = [m for m in world.machines.values() if m.core.node.ledger.rows()]
    rows = counted.core.node.ledger.rows()
    for machine in world.machines.values():
        if machine is not counted:
            world.arrive(machine, UsageLearned(counted.plan.name, rows))
    run(world, 1.0)
    world.power_off(counted)
    run(world, 15.0)
    for _ in range(2):
        core = broker(world).core.broker
        assert core.state.usage.usage_s(account, WALL_S + world.now_s) > 25.0
        world.go_down(broker(world))
        run(world, 15.0)


@pytest.mark.parametrize("seed", range(1, 9))
def test_lost_and_repeated_messages_cost_time_alone(seed):
    world = elected(4, network=LOSSY, seed=seed)
    jobs = [submit(world, f"m{number % 4}", run_s=4.0, tasks=2) for number in range(8)]
    run(world, 60.0)
    assert all(has_ended(world, job) for job in jobs)
    assert starts(world) == 16


def test_a_match_that_is_lost_is_told_again():
    world = elected(3)
    lost: list[Match] = []
    send = world.network.send

    def losing(sender, each) -> None:
        if type(each.message) is Match and not lost:
            lost.append(each.message)
        else:
            send(sender, each)

    for machine in world.machines.values():
        machine.on_send = losing
    home = rank(world)[2]
    jobs = [submit(world, home, run_s=1.0) for _ in range(3)]
    run(world, 4.0)
    assert lost
    assert all(has_ended(world, job) for job in jobs)

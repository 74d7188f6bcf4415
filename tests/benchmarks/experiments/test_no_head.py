"""The experiment of many machines without a head, in the small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from experiments.gossip_membership import EARLIER, GossipMembers
from experiments.no_head import Trial, Variant, arrivals_of, oracle, oracle_of_lines

from iriai.protocol.directory.publisher import PACES, Pace
from iriai.protocol.ledger.ledger_sync import PUBLISH_S
from iriai.protocol.messages.effects import Delivered
from iriai.protocol.messages.entries import EntryKind
from iriai.protocol.messages.members import MemberState
from iriai.sim.world.clock import WALL_S
from iriai.sim.world.machine_model import SimulatedMachine

pytestmark = pytest.mark.long

SHORT = Variant(12, 12, warm_s=60.0, window_s=600.0)


def trial_of(setting: Variant) -> Trial:
    return Trial(setting, arrivals_of(setting))


def test_clusters_do_together_what_one_would():
    """Work that comes in where all is taken is passed on."""
    setting = Variant(12, 12, cluster_machines=4, warm_s=60.0, window_s=600.0)
    trial = trial_of(setting)
    result = trial.run()
    best = oracle(setting, arrivals_of(setting))
    assert trial.network.counts["Summary"] > 0
    assert result.utilisation >= 0.99 * best.utilisation
    assert sorted(trial.world.machines[name].plan.cluster for name in trial.broker_names()) == [
        "lab0",
        "lab1",
        "lab2",
    ]


def test_machines_that_are_set_up_together_follow_one_broker_at_once():
    trial = trial_of(SHORT)
    trial.world.run_until(1.0)
    assert len(trial.broker_names()) == 1
    [broker] = trial.broker_names()
    machines = trial.world.machines.values()
    assert {machine.core.broker_at for machine in machines} == {broker}


def test_a_machine_with_a_long_task_is_woken_seldom():
    """A refresh each 30 s and its receipt, a slice a minute; nothing for what was acknowledged."""
    setting = Variant(12, 12, shortest_s=7200.0, longest_s=7200.0, warm_s=60.0, window_s=600.0)
    trial = trial_of(setting)
    trial.run()
    resting = [each for each in trial.world.machines.values() if not _is_candidate(trial, each)]
    turns = sum(machine.turns for machine in resting)
    assert turns / len(resting) / trial.world.now_s < 0.15


def test_what_is_said_in_one_moment_arrives_in_one():
    trial = trial_of(SHORT)
    moments: dict[tuple[str, str], set[float]] = {}
    network = trial.network
    deliver = network.on_arrival

    def note(machine: SimulatedMachine, event: object) -> None:
        if isinstance(event, Delivered):
            kind = type(event.message).__name__
            moments.setdefault((event.sender, kind), set()).add(trial.world.now_s)
        deliver(machine, event)  # type: ignore[arg-type]

    network.on_arrival = note
    trial.world.run_until(100.0)
    refreshing = {sender for sender, kind in moments if kind == "Wants"}
    assert len(refreshing) == 11  # all but the broker
    for sender in refreshing:
        assert moments[sender, "Wants"] & moments[sender, "Idle"]


def test_machines_that_are_set_up_together_hold_what_all_published():
    trial = trial_of(replace(SHORT, cluster_machines=4))
    trial.world.run_until(1.0)
    machines = gossip_of(trial).peers.machines.values()
    assert len({machine.peers.table.digest.checksum for machine in machines}) == 3
    assert len({machine.peers.table.site_digest.checksum for machine in machines}) == 1
    assert {len(machine.peers.members) for machine in machines} == {3}
    assert {len(machine.peers.gateways.others) for machine in machines} == {6}
    assert not any(machine.member.incidents.rows() for machine in machines)


def test_a_broker_that_dies_is_missed_by_gossip_and_found_again():
    trial = trial_of(SHORT)
    world, machines = trial.world, gossip_of(trial).peers.machines
    world.run_until(60.0)
    [name] = trial.broker_names()
    others = [machine for machine in machines.values() if machine.name != name]

    def take_it_for(state: MemberState) -> bool:
        known = [machine.peers.members.get(name) for machine in others]
        return all(member is not None and member.state is state for member in known)

    world.go_down(world.machines[name])
    assert until(trial, lambda: take_it_for(MemberState.DEAD), 120.0)
    [second] = trial.broker_names()
    assert second != name

    world.start_machine(world.machines[name])
    assert until(trial, lambda: take_it_for(MemberState.ALIVE), 120.0)
    assert until(trial, lambda: len(machines[name].peers.members) == 11, 120.0)
    assert until(trial, lambda: trial.broker_names() == [name], 120.0)


def test_what_a_machine_counted_counts_when_it_is_gone_until_it_is_too_old(monkeypatch):
    lifetime_s = 600.0
    monkeypatch.setitem(PACES, EntryKind.LEDGER, Pace(lifetime_s, PUBLISH_S))  # of 60 days
    trial = trial_of(SHORT)
    world = trial.world
    world.run_until(1.0)
    machines = list(world.machines.values())
    assert until(trial, lambda: all(len(each.core._usage) == 11 for each in machines), lifetime_s)
    [name] = trial.broker_names()
    gone = next(each for each in world.machines if each != name)
    account = EARLIER[-1].account  # nobody of the experiment

    def usage_s() -> float:
        [broker] = trial.broker_names()
        core = world.machines[broker].core.broker
        return core.state.usage.usage_s(account, WALL_S + world.now_s)

    before_s = usage_s()
    world.power_off(world.machines[gone])
    world.run_until(world.now_s + lifetime_s / 4)
    others = [each for each in machines if each.plan.name != gone]
    assert all(gone in each.core._usage for each in others)
    assert usage_s() == pytest.approx(before_s, rel=0.01)
    assert until(
        trial, lambda: not any(gone in each.core._usage for each in others), 2 * lifetime_s
    )
    assert usage_s() == pytest.approx(before_s * 10 / 11, rel=0.01)
    assert all(len(each.core._usage) == 10 for each in others)


def test_a_sample_gossips_and_the_others_are_told():
    setting = Variant(8, 8, cluster_machines=4, gossiping=1, warm_s=60.0, window_s=120.0)
    trial = trial_of(setting)
    trial.run()
    sample = trial.gossip_per_s()
    assert sample.keys() == {"m0", "m1", "m2", "m3"}
    beside = {name: trial.network.bytes_of[name] / 120.0 for name in trial.world.machines}
    mean = sum(sample.values()) / 4
    expected = {name: of + sample.get(name, mean) for name, of in beside.items()}
    assert trial.bytes_per_s() == pytest.approx(expected)
    assert len(trial.broker_names()) == 2


def test_two_lines_begin_as_much_as_one_in_another_order():
    setting = Variant(40, 40, cluster_machines=20, warm_s=600.0, window_s=7200.0)
    arrivals = arrivals_of(setting)
    one, two = oracle(setting, arrivals), oracle_of_lines(setting, arrivals)
    assert two.utilisation == pytest.approx(one.utilisation, abs=0.002)
    later = [b - a for a, b in zip(one.waits_s, two.waits_s, strict=True)]
    assert min(later) < 0.0 < max(later)


def test_a_single_line_is_the_oracle():
    setting = Variant(40, 40, cluster_machines=40, warm_s=600.0, window_s=7200.0)
    arrivals = arrivals_of(setting)
    assert oracle_of_lines(setting, arrivals) == oracle(setting, arrivals)


def gossip_of(trial: Trial) -> GossipMembers:
    assert isinstance(trial.world.members, GossipMembers)
    return trial.world.members


def until(trial: Trial, condition: Callable[[], bool], within_s: float) -> bool:
    """Let time pass until something holds, or for so long."""
    over_s = trial.world.now_s + within_s
    while not condition() and trial.world.now_s < over_s:
        trial.world.run_until(trial.world.now_s + 1.0)
    return condition()


def _is_candidate(trial: Trial, machine: SimulatedMachine) -> bool:
    """Whether it asks its broker each second, or is it."""
    succession = machine.core._election
    assert succession is not None
    return machine.plan.name in succession.candidates

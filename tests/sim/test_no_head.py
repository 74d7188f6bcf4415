"""The experiment of many machines without a head, in the small."""

from __future__ import annotations

from iriai.protocol.effects import Delivered
from iriai.sim.experiments.no_head import Setting, Trial, arrivals_of, oracle
from iriai.sim.machine_model import SimulatedMachine

SHORT = Setting(12, 12, warm_s=60.0, window_s=600.0)


def trial_of(setting: Setting) -> Trial:
    return Trial(setting, arrivals_of(setting))


def test_clusters_do_together_what_one_would():
    """Work that comes in where all is taken is passed on."""
    setting = Setting(12, 12, cluster_machines=4, warm_s=60.0, window_s=600.0)
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
    setting = Setting(12, 12, shortest_s=7200.0, longest_s=7200.0, warm_s=60.0, window_s=600.0)
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


def _is_candidate(trial: Trial, machine: SimulatedMachine) -> bool:
    """Whether it asks its broker each second, or is it."""
    succession = machine.core._succession
    assert succession is not None
    return machine.plan.name in succession.candidates

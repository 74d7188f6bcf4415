"""Stories of machines that have all parts and elect their broker, of one cluster or of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial

from iriai.model.admission_rules import OTHERS, HomeRules
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.actions import KINDS, Action, Happening
from iriai.sim.faults.scenario import BEGIN_S, FAULTS_UNTIL_S, FRONT, Scenario, scenario_of
from iriai.sim.world.machine_model import EVERY_PART, EVERYBODY, MachinePlan, SimulatedMachine
from iriai.sim.world.rng import Rng
from iriai.sim.world.world import World
from tests.sim.forwarding_check import ForwardingCheck

CLUSTERS = ("lab", "art", "law", "sea")
"""The names of several clusters: the first two to four, each machine in turn."""


@dataclass(frozen=True, slots=True)
class OfElection(Happening):
    """A fault of a broker, or of a machine that follows it."""

    @property
    def action(self) -> Action:
        return OF_ELECTIONS[self.kind]


@dataclass(frozen=True)
class ElectedScenario(Scenario):
    """A world in which brokers may pass tasks on to those of other clusters."""

    def world(self) -> World:
        world = super().world()
        world.watchers.append(ForwardingCheck(lambda name: world.machines[name].plan.cluster))
        return world


def elected(seed: int) -> Scenario:
    """Return the scenario of a seed in one cluster."""
    return _with_elections(scenario_of(seed, partial(_electing, seed, CLUSTERS[:1])))


def parted(seed: int) -> Scenario:
    """Return the scenario of a seed in two to four clusters."""
    clusters = CLUSTERS[: 2 + seed % 3]
    return _with_elections(
        scenario_of(seed, lambda plans: _able_alone(_electing(seed, clusters, plans)))
    )


def joined(seed: int) -> Scenario:
    """Return the scenario of a seed in one cluster, of a front end and its back ends."""
    return _with_elections(scenario_of(seed, _enrolled))


def _enrolled(plans: list[MachinePlan]) -> list[MachinePlan]:
    """Make the machines members of a cluster, in which one alone may be the broker."""
    return [replace(plan, cluster=CLUSTERS[0]) for plan in plans]


def _electing(seed: int, clusters: tuple[str, ...], plans: list[MachinePlan]) -> list[MachinePlan]:
    """Let some machines run tasks of some users only; the largest runs everybody's."""
    rng = Rng(seed, "rules")
    plans = [
        replace(plan, parts=EVERY_PART, broker_at="", cluster=clusters[number % len(clusters)])
        for number, plan in enumerate(plans)
    ]
    largest = max(plans, key=lambda plan: plan.capacity.cpus)
    return [
        replace(plan, rules=_rules(rng, plan.name))
        if plan is not largest and rng.chance(0.3)
        else plan
        for plan in plans
    ]


def _able_alone(plans: list[MachinePlan]) -> list[MachinePlan]:
    """Let machines run every job that may have to: those of a cluster without a broker.

    If none of its machines accepts connections each follows itself (spec 008, section 6).
    """
    most = max((plan.capacity for plan in plans), key=lambda capacity: capacity.cpus)
    led = {plan.cluster for plan in plans if not plan.outward_only}
    return [
        plan if plan.cluster in led else replace(plan, capacity=most, rules=EVERYBODY)
        for plan in plans
    ]


def _rules(rng: Rng, machine: str) -> HomeRules:
    users = (rng.pick(("ann", "bob", "eve")),)
    return HomeRules(machine, {rng.pick((OTHERS, FRONT)): users})


def _with_elections(scenario: Scenario) -> Scenario:
    """Return the same scenario with faults of brokers, unless it is calm."""
    scenario = ElectedScenario(*(getattr(scenario, field.name) for field in fields(scenario)))
    if scenario.is_calm:
        return scenario
    rng = Rng(scenario.seed, "elections")
    names = [plan.name for plan in scenario.plans]
    faults = [
        OfElection(
            rng.between(BEGIN_S, FAULTS_UNTIL_S),
            rng.pick(tuple(OF_ELECTIONS)),
            rng.pick(names),
            rng.pick((rng.between(0.0, 2.0), rng.between(2.0, 60.0))),
        )
        for _ in range(1 + rng.below(4))
    ]
    happenings = sorted((*scenario.happenings, *faults), key=lambda each: each.at_s)
    return replace(scenario, happenings=tuple(happenings))


def _broker_dies(world: World, _machine: SimulatedMachine, happening: Happening) -> None:
    """Kill the daemon of each machine that acts as broker."""
    for each in world.present():
        if each.is_up and Part.BROKER in each.core.parts:
            KINDS["daemon-dies"](world, each, happening)


def _is_suspected(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    world.members.suspect(machine, happening.lasts_s)


def _is_cut_off(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Cut the links of the machine to all others."""
    others = [name for name in world.machines if name != machine.plan.name]
    for other in others:
        world.network.cut(machine.plan.name, other)
        heal = partial(world.network.heal, machine.plan.name, other)
        world.agenda.after(happening.lasts_s, heal)


OF_ELECTIONS: Mapping[str, Action] = {
    "broker-dies": _broker_dies,
    "suspected": _is_suspected,
    "cut-off": _is_cut_off,
}

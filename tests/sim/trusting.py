"""Stories in which operators trust homes and users consent during other events.

Each machine hears of a document at its own moment, and keeps it as it keeps its store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from msgspec.structs import replace as with_fields

from iriai.model.admission_rules import ALL, OTHERS, HomeRules
from iriai.sim.faults.actions import Action, Happening, asks
from iriai.sim.faults.scenario import BEGIN_S, FAULTS_UNTIL_S, Scenario
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.rng import Rng
from iriai.sim.world.world import World

TRUSTED_USERS = ("ann", "bob", "eve")
"""The users for whom homes may be trusted: the bits of `Happening.number`, lowest first."""
RULES_RETRY_S = 5.0
"""Seconds after which a change of rules is retried on a machine whose daemon was down."""
HEARD_WITHIN_S = 10.0
"""Seconds within which a document has reached every machine."""
CONSENTS_S = (20.0, 400.0)
"""The bounds of how long a consent lasts; some end while its tasks wait."""
EVERYBODY = (1 << len(TRUSTED_USERS)) - 1


@dataclass(frozen=True, slots=True)
class OfTrust(Happening):
    """A word of an operator that reaches a machine, or one of its users."""

    @property
    def action(self) -> Action:
        return OF_TRUST[self.kind]


def with_trust(scenario: Scenario) -> Scenario:
    """Return the same scenario in a cluster that trusts homes by name.

    The largest machine runs everybody's tasks, by its owner's word, so that all can end. No pool is
    bounded, nobody reserves, and no task needs several machines: it could wait until a consent has
    ended.
    """
    rng = Rng(scenario.seed, "trust")
    names = [plan.name for plan in scenario.plans]
    largest = max(scenario.plans, key=lambda plan: plan.capacity.cpus)
    plans = tuple(
        replace(
            plan,
            configuration=with_fields(plan.configuration, pools={}),
            rules=HomeRules(plan.name, {OTHERS: (ALL,)} if plan is largest else plan.rules.homes),
        )
        for plan in scenario.plans
    )
    happenings = [*_delivered(rng, 0.0, OTHERS, 0, names)]
    for _ in range(1 + rng.below(6)):
        at_s = rng.between(0.0, FAULTS_UNTIL_S - HEARD_WITHIN_S)
        users = rng.pick((0, 1, 2, 4, 5, EVERYBODY))
        happenings += _delivered(rng, at_s, rng.pick(names), users, names)
    for _ in range(rng.below(6)):
        at_s = rng.between(BEGIN_S, FAULTS_UNTIL_S)
        users = rng.pick((1, 2, 4))
        lasts_s = rng.between(*CONSENTS_S)
        machine, home = rng.pick(names), rng.pick(names)
        happenings.append(OfTrust(at_s, "consents", machine, lasts_s, home, users))
    others = [each for each in scenario.happenings if _can_end_on(largest, each)]
    everything = sorted((*happenings, *others), key=lambda each: each.at_s)
    return replace(scenario, plans=plans, happenings=tuple(everything))


def _can_end_on(machine: MachinePlan, happening: Happening) -> bool:
    """Return whether it asks for nothing that one machine alone cannot give."""
    submission = happening.submission
    if submission is None:
        return happening.kind != "reserve"
    shape = submission.shape
    is_of_one = shape.nodes in (None, 1)
    return is_of_one and submission.cpus * shape.least <= machine.capacity.cpus


def _delivered(rng: Rng, at_s: float, home: str, users: int, names: list[str]) -> list[Happening]:
    """Return the delivery of one operator's document to every machine."""
    lag_s = HEARD_WITHIN_S if at_s else 0.0
    return [
        OfTrust(at_s + rng.between(0.0, lag_s), "trusts", name, at_s, home, users) for name in names
    ]


def _trusts(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Deliver the users of a trusted home to the machine; `lasts_s` is the time of signing."""
    home, said = happening.other, (happening.lasts_s, _users(happening))

    def hear() -> None:
        held = machine.trusted.get(home)
        if held is None or held[0] < said[0]:
            machine.trusted[home] = said

    _rules_change(world, machine, hear)


def _consents(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let users consent to tasks from a home on the machine, for `lasts_s`."""
    until_s = machine.clock.at(world.now_s).wall_s + happening.lasts_s
    given = {(happening.other, user): until_s for user in _users(happening)}
    _rules_change(world, machine, lambda: machine.consents.update(given))


def _users(happening: Happening) -> tuple[str, ...]:
    return tuple(u for bit, u in enumerate(TRUSTED_USERS) if happening.number >> bit & 1)


def _rules_change(world: World, machine: SimulatedMachine, change: Callable[[], None]) -> None:
    """Change the admission rules of a machine, or retry later if its daemon does not run."""
    if not machine.is_up or machine.is_stopped:
        world.agenda.after(RULES_RETRY_S, partial(_rules_change, world, machine, change))
        return
    change()
    asks(world, machine, machine.core.node.rules_changed)


OF_TRUST: Mapping[str, Action] = {"trusts": _trusts, "consents": _consents}

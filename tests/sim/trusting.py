"""Stories in which operators trust homes and users consent during other events.

Each machine hears of a document at its own moment, and keeps it as it keeps its store.
"""

from __future__ import annotations

from dataclasses import replace

from iriai.model.admission_rules import ALL, OTHERS, HomeRules
from iriai.sim.faults.actions import TRUSTED_USERS, Happening
from iriai.sim.faults.scenario import BEGIN_S, FAULTS_UNTIL_S, Scenario
from iriai.sim.world.rng import Rng

HEARD_WITHIN_S = 10.0
"""Seconds within which a document has reached every machine."""
CONSENTS_S = (20.0, 400.0)
"""The bounds of how long a consent lasts; some end while its tasks wait."""
EVERYBODY = (1 << len(TRUSTED_USERS)) - 1


def with_trust(scenario: Scenario) -> Scenario:
    """Return the same scenario in a cluster that trusts homes by name.

    The largest machine runs everybody's tasks, by its owner's word, so that all can end.
    """
    rng = Rng(scenario.seed, "trust")
    names = [plan.name for plan in scenario.plans]
    largest = max(scenario.plans, key=lambda plan: plan.capacity.cpus)
    plans = tuple(
        replace(
            plan,
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
        happenings.append(Happening(at_s, "consents", machine, lasts_s, home, users))
    everything = sorted((*happenings, *scenario.happenings), key=lambda each: each.at_s)
    return replace(scenario, plans=plans, happenings=tuple(everything))


def _delivered(rng: Rng, at_s: float, home: str, users: int, names: list[str]) -> list[Happening]:
    """Return the delivery of one operator's document to every machine."""
    lag_s = HEARD_WITHIN_S if at_s else 0.0
    return [
        Happening(at_s + rng.between(0.0, lag_s), "trusts", name, at_s, home, users)
        for name in names
    ]

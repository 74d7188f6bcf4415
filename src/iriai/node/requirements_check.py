"""Whether machine and job still want each other when a claim is asked for: the node's last word.

Brokers match by what they heard last. Here the machine's own values are asked, of HTCondor's
library, which is loaded by the first job or owner that requires something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iriai.classad.bindings import values_of
from iriai.classad.constraint import Constraint, condition
from iriai.classad.volatile_attributes import clock_attributes, load_attributes
from iriai.model.ad import (
    Value,
    attributes_of,
    capacity_attributes,
    job_attributes,
    machine_ad,
)
from iriai.model.job import JobSpec
from iriai.model.reason import Reason, Rule
from iriai.node.load import Load

if TYPE_CHECKING:
    from iriai.node.settings import NodeSettings


class RequirementsCheck:
    """Asks both requirements."""

    def __init__(self, settings: NodeSettings, load: Load) -> None:
        machine, capacity = settings.machine, settings.capacity
        self.ad = settings.ad or machine_ad(capacity_attributes(machine, capacity, settings.speed))
        self._machine = machine
        self._load = load
        self._owners = condition(self.ad.requirements)

    def attributes(self, wall_s: float) -> dict[str, Value]:
        """What the machine says of itself now."""
        static = attributes_of(self.ad)
        load = self._load
        measured = load_attributes(load.average, load.foreign, load.keyboard_idle_s)
        return static | measured | clock_attributes(wall_s, static)

    def lacks(self, spec: JobSpec, wall_s: float) -> Reason | None:
        """Which clause does not hold; None: all do."""
        wanted = condition(spec.requirements)
        problem = wanted.problem or self._owners.problem
        if problem:
            rule = Rule.REQUIREMENTS if wanted.problem else Rule.OWNER_POLICY
            return Reason(rule, "requirements that can be read", problem, self._machine)
        if not (wanted.keys or self._owners.keys or spec.requirements or self.ad.requirements):
            return None
        machine = self.attributes(wall_s)
        job = job_attributes(
            spec.account,
            spec.resources,
            spec.time_limit_s,
            spec.urgency,
            exclusive=spec.exclusive,
        )
        return self._failing(Rule.REQUIREMENTS, wanted, job, machine) or self._failing(
            Rule.OWNER_POLICY, self._owners, machine, job
        )

    def _failing(
        self, rule: Rule, wanted: Constraint, my: Mapping[str, Value], target: Mapping[str, Value]
    ) -> Reason | None:
        from iriai.classad.reference_evaluator import evaluate, holds

        for clause in wanted.clauses():
            if not holds(evaluate(clause, my, target)):
                mine = {name.lower(): value for name, value in my.items()}
                other = {name.lower(): value for name, value in target.items()}
                return Reason(rule, clause.text, values_of(clause, mine, other), self._machine)
        return None

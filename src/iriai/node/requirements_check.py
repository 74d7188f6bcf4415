"""The requirements of jobs and of the machine's owner, by the machine's current values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iriai.classad.bindings import values_of
from iriai.classad.constraint import Constraint, condition
from iriai.classad.installation import why_unusable
from iriai.classad.volatile_attributes import (
    clock_attributes,
    load_attributes,
    state_attributes,
)
from iriai.model.ad import (
    Value,
    attributes_of,
    capacity_attributes,
    job_attributes,
    machine_ad,
)
from iriai.model.claim import Claim
from iriai.model.job import JobSpec
from iriai.model.reason import Reason, Rule
from iriai.node.claims import Claims
from iriai.node.offer_builder import Availability
from iriai.node.settings import NodeSettings

if TYPE_CHECKING:
    from iriai.policy.owner.owner_judge import OwnerJudge


def job_of(claim: Claim) -> dict[str, Value]:
    """Return the attributes of the job of a claim."""
    return job_attributes(
        claim.account, claim.resources, claim.limit_s, claim.urgency, exclusive=False
    )


class RequirementsCheck:
    """Evaluates the requirements of jobs and of the machine's owner.

    Brokers match by the values reported last. Here HTCondor's library evaluates the machine's
    current values; it is loaded by the first job or owner that requires something. If it is not
    installed there is no owner's requirement, and the broker's decision about a job's is accepted.
    """

    def __init__(self, settings: NodeSettings, availability: Availability, claims: Claims) -> None:
        machine, capacity = settings.machine, settings.capacity
        self.ad = settings.ad or machine_ad(capacity_attributes(machine, capacity, settings.speed))
        self._settings = settings
        self._machine = machine
        self._availability, self._claims = availability, claims
        self._owners = condition(self.ad.requirements)
        self.judge: OwnerJudge | None = None
        """What says when tasks give way to the owner; None: no expression does."""

    def attributes(self, wall_s: float) -> dict[str, Value]:
        """Return the attributes that the machine reports of itself now."""
        static = attributes_of(self._settings.ad_now or self.ad)
        load, unavailable = self._availability.load, self._availability.reason()
        calendar = self._claims.calendar
        is_claimed = calendar.free.cpus < calendar.capacity.cpus
        return {
            **static,
            **load_attributes(
                *(load.average, load.foreign, load.keyboard_idle_s, load.use), load.expected_idle_s
            ),
            **state_attributes(unavailable, load.use, is_claimed=is_claimed),
            **clock_attributes(wall_s, static),
        }

    def lacks(self, spec: JobSpec, wall_s: float) -> Reason | None:
        """Return the clause that does not hold; None: all do."""
        if not (spec.requirements or self.ad.requirements or self.judge):
            return None
        wanted = condition(spec.requirements)
        problem = wanted.problem or self._owners.problem
        if problem:
            rule = Rule.REQUIREMENTS if wanted.problem else Rule.OWNER_POLICY
            return Reason(rule, "readable requirements", problem, self._machine)
        if why_unusable():
            return None
        machine = self.attributes(wall_s)
        job = job_attributes(
            spec.account,
            spec.resources,
            spec.time_limit_s,
            spec.urgency,
            exclusive=spec.exclusive,
        )
        suspends = "" if self.judge is None else self.judge.refusal(job)
        if suspends:
            had = "its owner's condition to suspend this task holds, or has no value for it"
            return Reason(Rule.OWNER_ACTIVE, f"not {suspends}", had, self._machine)
        return self._failing(Rule.REQUIREMENTS, wanted, job, machine) or self._failing(
            Rule.OWNER_POLICY, self._owners, machine, job
        )

    def _failing(
        self, rule: Rule, wanted: Constraint, my: Mapping[str, Value], target: Mapping[str, Value]
    ) -> Reason | None:
        from iriai.classad.reference_evaluator import evaluate
        from iriai.classad.syntax_tree import holds

        for clause in wanted.clauses():
            if not holds(evaluate(clause, my, target)):
                mine = {name.lower(): value for name, value in my.items()}
                other = {name.lower(): value for name, value in target.items()}
                return Reason(rule, clause.text, values_of(clause, mine, other), self._machine)
        return None

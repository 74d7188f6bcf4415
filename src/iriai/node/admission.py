"""Admission of claims on a node: its capability, the rules, what is free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

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
from iriai.model.claim import Claim, Phase
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.node.claims import Claims
from iriai.node.cycle import NodeCycle
from iriai.node.offer_builder import Availability, OfferBuilder
from iriai.node.settings import NodeSettings
from iriai.protocol.messages.scheduling import Capability, Run, TurnedAway

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


class Granted(NamedTuple):
    """The decision to grant a claim."""

    minted_s: float
    """The steady time at which the capability of the grant was minted."""
    is_ahead: bool = False
    """True if the claim was granted ahead and waits for a place."""


class Admission:
    """Grants a claim, or refuses it with the reason; it never defers."""

    def __init__(
        self,
        settings: NodeSettings,
        claims: Claims,
        availability: Availability,
        report: OfferBuilder,
        agreement: RequirementsCheck,
    ) -> None:
        self._judge_user = settings.judge_user
        self._machine = settings.machine
        self._claims = claims
        self._calendar = claims.calendar
        self._availability = availability
        self._report = report
        self._agreement = agreement
        self.cycle: NodeCycle | None = None
        """The turns of claims that are to be made."""

    def judge(self, run: Run, now: Instant) -> Reason | Granted:
        """Return why the claim is refused, or how it is granted."""
        wall_s = now.wall_s
        if run.phase is not Phase.STARTED or run.seats:
            refused = self._judge_phase(run, now.steady_s)
            if refused is not None:
                return refused
        granted = self._redeemed(run.capability)
        if granted is None:
            return Reason(
                Rule.STALE_CAPABILITY,
                "a capability of this incarnation, not used before",
                f"{run.capability}",
                self._machine,
            )
        home, user = run.attempt.home, run.spec.user
        is_own = home == self._machine  # then it was decided at submission
        words = "" if is_own else self._judge_user(home, user, wall_s)
        if words:
            assert run.capability is not None, "an unused capability was issued earlier"
            self._report.turned_away(TurnedAway(run.capability, home, user, words))
            whom = "a home and a user whose tasks the machine runs"
            return Reason(Rule.USER_NOT_ALLOWED, whom, words, self._machine)
        in_use = self._availability.in_use_for(user)
        if in_use is not None and run.capability is not None:
            away = TurnedAway(run.capability, home, user, in_use.had, is_in_use=True)
            self._report.turned_away(away)
            return in_use
        reason = self._availability.reason()
        if reason is None:
            reason = self._lacks(run)
            offered = self._report.capabilities
            if reason is None:
                if granted.is_ahead:  # its resources are free by now
                    offered.overtake()
                    granted = granted._replace(is_ahead=False)
            elif run.phase is Phase.STARTED and (
                granted.is_ahead or (run.capability and offered.is_overtaken(run.capability))
            ):
                reason = self._lacks_behind(run)
                granted = granted._replace(is_ahead=True)
        reason = reason or self._agreement.lacks(run.spec, wall_s)
        return granted if reason is None else reason

    def _judge_phase(self, run: Run, now_s: float) -> Reason | None:
        """Return why a run of one of several seats that is not here is refused; None: it is not.

        A home confirms only what it was told is held: so such a claim was held here, and freed.
        """
        if run.phase is Phase.HELD:
            return self._claims.holds.refusal(run.attempt.home, now_s)
        needed = "to be confirmed while it is held"
        return Reason(Rule.HOLD_EXPIRED, needed, "it is not held", self._machine)

    def _redeemed(self, capability: Capability | None) -> Granted | None:
        """Return what a capability permits; None: nothing.

        A home sends a `Run` without one for an attempt that is unknown here. Its first `Run` may
        still be in transit, with a capability: from now on that is refused too.
        """
        if capability is None:
            for voided in (*self._report.capabilities.void(), *self._report.ahead.void()):
                self._report.spent(voided)
            return None
        self._report.spent(capability)
        minted_s = self._report.capabilities.redeem(capability)
        if minted_s is not None:
            return Granted(minted_s)
        minted_s = self._report.ahead.redeem(capability)
        return None if minted_s is None else Granted(minted_s, is_ahead=True)

    def _lacks(self, run: Run) -> Reason | None:
        if run.spec.exclusive and len(self._calendar):
            running = f"{len(self._calendar)} tasks run"
            return Reason(Rule.MACHINE_BUSY, "an empty machine", running, self._machine)
        needed = run.spec.resources
        if run.ranks > 1:
            needed = needed.times(run.ranks)
        has_turn = self.cycle is not None and self.cycle.matched
        free = self.cycle.room_for(run) if self.cycle and has_turn else self._calendar.free
        return self._short_of(needed, free, "free")

    def _lacks_behind(self, run: Run) -> Reason | None:
        """Return why a claim cannot be granted ahead: at most one is for each running task."""
        spec = run.spec
        if spec.exclusive or spec.resources.gpus:
            had = "it needs the whole machine" if spec.exclusive else "it needs a GPU"
            return Reason(Rule.MACHINE_BUSY, "a task that can be prefetched", had, self._machine)
        return self._short_of(
            spec.resources.times(run.ranks),
            self._claims.followable,
            "tasks that hold resources to wait for",
        )

    def _short_of(self, needed: Resources, there: Resources, where: str) -> Reason | None:
        if needed.fits_in(there):
            return None
        resource, amount, had = needed.lacking_in(there)[0]
        return Reason(
            Rule.MACHINE_BUSY,
            describe_amount(resource, amount),
            f"{describe_amount(resource, had)} {where}",
            self._machine,
        )

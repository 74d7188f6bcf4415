"""Whether a node takes a claim: its capability, what may be started, what is free."""

from __future__ import annotations

from typing import NamedTuple

from iriai.model.job import JobSpec
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.node.availability import Availability
from iriai.node.capabilities import Capabilities
from iriai.node.claims import Claims
from iriai.node.offer_builder import OfferBuilder
from iriai.node.requirements_check import RequirementsCheck
from iriai.node.settings import JudgeUser, everybody
from iriai.protocol.messages.scheduling import Capability, Run, TurnedAway


class Granted(NamedTuple):
    """A claim is to be granted."""

    minted_s: float
    """When the capability was minted that it is granted for, on the steady clock."""
    is_ahead: bool = False
    """It waits for a place."""


class Admission:
    """Says yes, or no with the reason; never "wait"."""

    def __init__(
        self,
        machine: str,
        claims: Claims,
        capabilities: Capabilities,
        ahead: Capabilities,
        availability: Availability,
        report: OfferBuilder,
        agreement: RequirementsCheck,
        judge_user: JudgeUser = everybody,
    ) -> None:
        self._judge_user = judge_user
        self._machine = machine
        self._claims = claims
        self._calendar = claims.calendar
        self._capabilities = capabilities
        self._ahead = ahead
        """For what may wait here for a place."""
        self._availability = availability
        self._report = report
        self._agreement = agreement

    def judge(self, run: Run, wall_s: float) -> Reason | Granted:
        """Why the claim is refused, or how it is granted."""
        granted = self._redeemed(run.capability)
        if granted is None:
            return Reason(
                Rule.STALE_CAPABILITY,
                "a capability of this incarnation, not used before",
                f"{run.capability}",
                self._machine,
            )
        home, user = run.attempt.home, run.spec.user
        words = self._judge_user(home, user, wall_s)
        if words:
            assert run.capability is not None, "what was not redeemed went before"
            self._report.turned_away(TurnedAway(run.capability, home, user, words))
            whom = "a home and a user whose tasks the machine runs"
            return Reason(Rule.USER_NOT_ALLOWED, whom, words, self._machine)
        reason = self._availability.reason()
        if reason is None:
            reason = self._lacks(run.spec)
            if reason is None:
                granted = granted._replace(is_ahead=False)  # there is room by now
            elif granted.is_ahead:
                reason = self._lacks_behind(run.spec)
        reason = reason or self._agreement.lacks(run.spec, wall_s)
        return granted if reason is None else reason

    def _redeemed(self, capability: Capability | None) -> Granted | None:
        """What a capability is good for; None: nothing.

        Without one a home asks for an attempt that is not known here. Its first `Run` may still be
        under way, with a capability: from now on that is refused, too.
        """
        if capability is None:
            for voided in (*self._capabilities.void(), *self._ahead.void()):
                self._report.spent(voided)
            return None
        self._report.spent(capability)
        minted_s = self._capabilities.redeem(capability)
        if minted_s is not None:
            return Granted(minted_s)
        minted_s = self._ahead.redeem(capability)
        return None if minted_s is None else Granted(minted_s, is_ahead=True)

    def _lacks(self, spec: JobSpec) -> Reason | None:
        if spec.exclusive and len(self._calendar):
            running = f"{len(self._calendar)} tasks run"
            return Reason(Rule.MACHINE_BUSY, "an empty machine", running, self._machine)
        return self._short_of(spec.resources, self._calendar.free, "free")

    def _lacks_behind(self, spec: JobSpec) -> Reason | None:
        """Why a task may not wait here for what runs: one may for each that does, at most."""
        if spec.exclusive or spec.resources.gpus:
            had = "it takes the whole machine" if spec.exclusive else "it takes a gpu"
            return Reason(Rule.MACHINE_BUSY, "a task that can wait for a place", had, self._machine)
        return self._short_of(spec.resources, self._claims.followable, "held by tasks to wait for")

    def _short_of(self, needed: Resources, there: Resources, where: str) -> Reason | None:
        lacking = needed.lacking_in(there)
        if not lacking:
            return None
        resource, amount, had = lacking[0]
        return Reason(
            Rule.MACHINE_BUSY,
            describe_amount(resource, amount),
            f"{describe_amount(resource, had)} {where}",
            self._machine,
        )

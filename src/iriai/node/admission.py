"""Whether a node takes a claim: its capability, what may be started, what is free."""

from __future__ import annotations

from collections.abc import Callable

from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.reason import Reason, Rule
from iriai.model.resources import describe_amount
from iriai.node.agreement import Agreement
from iriai.node.availability import Availability
from iriai.node.capabilities import Capabilities
from iriai.node.report import Report
from iriai.policy.calendar import Calendar
from iriai.protocol.messages import Capability, Run, TurnedAway

JudgeUser = Callable[[str, str], str]
"""Why tasks of a user, handed in at a home, are not run here; empty: they are."""


def everybody(_home: str, _user: str) -> str:
    """Refuse nobody."""
    return ""


class Admission:
    """Says yes, or no with the reason; never "wait"."""

    def __init__(
        self,
        machine: str,
        calendar: Calendar[AttemptId],
        capabilities: Capabilities,
        availability: Availability,
        report: Report,
        agreement: Agreement,
        judge_user: JudgeUser = everybody,
    ) -> None:
        self._judge_user = judge_user
        self._machine = machine
        self._calendar = calendar
        self._capabilities = capabilities
        self._availability = availability
        self._report = report
        self._agreement = agreement

    def judge(self, run: Run, wall_s: float) -> Reason | float:
        """Why the claim is refused, or when the capability was minted that it is granted for."""
        minted_s = self._redeemed(run.capability)
        if minted_s is None:
            return Reason(
                Rule.STALE_CAPABILITY,
                "a capability of this incarnation, not used before",
                f"{run.capability}",
                self._machine,
            )
        home, user = run.attempt.home, run.spec.user
        words = self._judge_user(home, user)
        if words:
            assert run.capability is not None, "what was not redeemed went before"
            self._report.turned_away(TurnedAway(run.capability, home, user, words))
            whom = "a home and a user whose tasks the machine runs"
            return Reason(Rule.USER_NOT_ALLOWED, whom, words, self._machine)
        reason = (
            self._availability.reason()
            or self._lacks(run.spec)
            or self._agreement.lacks(run.spec, wall_s)
        )
        return minted_s if reason is None else reason

    def _redeemed(self, capability: Capability | None) -> float | None:
        """When a capability was minted; None: it is good for nothing.

        Without one a home asks for an attempt that is not known here. Its first `Run` may still be
        under way, with a capability: from now on that is refused, too.
        """
        if capability is None:
            for voided in self._capabilities.void():
                self._report.spent(voided)
            return None
        self._report.spent(capability)
        return self._capabilities.redeem(capability)

    def _lacks(self, spec: JobSpec) -> Reason | None:
        if spec.exclusive and len(self._calendar):
            running = f"{len(self._calendar)} tasks run"
            return Reason(Rule.MACHINE_BUSY, "an empty machine", running, self._machine)
        lacking = spec.resources.lacking_in(self._calendar.free)
        if not lacking:
            return None
        resource, needed, there = lacking[0]
        return Reason(
            Rule.MACHINE_BUSY,
            describe_amount(resource, needed),
            f"{describe_amount(resource, there)} free",
            self._machine,
        )

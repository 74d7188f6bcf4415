"""What an account may take of the cpus now, whatever is drawn: the burst rule and the running cap.

Each answers with the numbers it decided by, so that a refusal can be shown.
"""

from __future__ import annotations

from typing import NamedTuple

from iriai.model.reason import Reason, Rule

ROUNDING_CPUS = 1e-6
"""Shares are quotients: a limit that should be a whole number of cpus may come out just below."""


class CpuLimit(NamedTuple):
    """What one rule says about an account that asks for more cpus."""

    rule: Rule
    allowed: bool
    asked_cpus: int
    running_cpus: int
    """Of the account's tasks that run, or were matched and are about to."""
    limit_cpus: float
    """The most that the account may run by this rule; infinite where it does not apply."""

    def reason(self) -> Reason:
        """The refusal as data; only for one that is not allowed."""
        assert not self.allowed
        scope = "while others wait" if self.rule is Rule.BURST else "by the cap for each account"
        return Reason(
            self.rule,
            needed=f"{self.asked_cpus} more {'cpu' if self.asked_cpus == 1 else 'cpus'}",
            had=f"the account runs {self.running_cpus} of at most {self.limit_cpus:.4g} {scope}",
        )


def is_below(asked_cpus: int, running_cpus: int, limit_cpus: float) -> bool:
    """Whether so many more are within a limit that may have been rounded."""
    return running_cpus + asked_cpus <= limit_cpus + ROUNDING_CPUS


def within_burst(
    asked_cpus: int,
    running_cpus: int,
    share_wanted: float,
    total_cpus: int,
    *,
    burst: float,
    others_wait: bool,
) -> CpuLimit:
    """Whether an account may start `asked_cpus` more: at most `burst` x its share of all cpus.

    Between two draws little has accrued, so without this a newcomer would take every free slot.
    It binds only while others wait, and never an account that runs nothing. `share_wanted` is
    the account's part in `shares_wanted` of those that wait, `total_cpus` are those of all
    machines in reach; `burst` is at least 1, else cpus would be left over that nobody may take.
    """
    assert burst >= 1
    limit = burst * share_wanted * total_cpus if others_wait else float("inf")
    fits = is_below(asked_cpus, running_cpus, limit)
    return CpuLimit(
        Rule.BURST,
        fits or running_cpus == 0,
        asked_cpus,
        running_cpus,
        limit,
    )


def within_running_cap(asked_cpus: int, running_cpus: int, cap_cpus: int | None) -> CpuLimit:
    """Whether an account may start `asked_cpus` more under the running cap; None is no cap.

    A cap is meant literally: a task larger than it never starts, which its home says at
    submission by asking with nothing running.
    """
    limit = float("inf") if cap_cpus is None else float(cap_cpus)
    return CpuLimit(
        Rule.RUNNING_CAP,
        running_cpus + asked_cpus <= limit,
        asked_cpus,
        running_cpus,
        limit,
    )

"""Settings of a simulation, the same in both modes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.config.sections import WEIGHT_MAX, GroupSection
from iriai.model.problem import UsageProblem
from iriai.plugins.orders import BUILT_IN
from iriai.plugins.policy_file import is_own_policy, named_plan, plug_in_policies
from iriai.policy.placement.policy_api import PlanSource
from iriai.sim.workload.log import Log

FIFO = "fifo"
"""The order that knows no accounts."""
REPLAY, FULL = "replay", "full"
"""The policy and its calendars alone; or every message between the parts of each machine."""
POLICIES = {
    "fcfs": "none",
    "easy": "easy",
    "easy-sjbf": "easy-sjbf",
    "conservative": "conservative",
}
"""By the name in the literature, the name that `[order] backfill` of the configuration has."""
POLICY, ORDER = "easy", FIFO
"""What other simulators mean by the name of a backfill rule alone."""

ALONE = "machine"
"""The machine of a log, where it has but one."""

DEFAULTS = Configuration()


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """One simulation. The same log and settings give the same records, bit for bit."""

    policy: str = POLICY
    order: str = ORDER
    mode: str = REPLAY
    seed: int = 1
    configuration: Configuration = DEFAULTS
    """Rights, half-life, burst and the like; policy and order stand above."""
    is_checked: bool = False
    """Whether the invariants are looked at after every event."""
    through_wire: bool = False
    """Whether messages become bytes on their way; in full mode alone there are any."""
    machines: int = 1
    """Machines on which the log's processors are spread; of several a job's width is its ranks."""

    def refuse_unknown(self) -> None:
        """Refuse names that do not exist.

        Raises:
            UsageProblem: policy, order or mode.
        """
        if self.mode not in (REPLAY, FULL):
            raise UsageProblem(
                "unknown-mode", f"there is no mode '{self.mode}'", f"use one of: {REPLAY}, {FULL}"
            )
        if self.through_wire and self.mode != FULL:
            raise UsageProblem("usage", "a replay has no messages", "use --mode full with --wire")
        if self.order not in BUILT_IN:
            raise UsageProblem(
                "unknown-order",
                f"there is no order '{self.order}'",
                f"use one of: {', '.join(BUILT_IN)}",
            )
        if self.policy not in POLICIES and not is_own_policy(self.policy):
            known = ", ".join([*POLICIES, *sorted(plug_in_policies())])
            raise UsageProblem(
                "unknown-policy",
                f"there is no policy '{self.policy}'",
                f"use one of: {known}, or FILE.py:CLASS",
            )

    def plan_source(self) -> PlanSource | None:
        """Return the policy from a file; None for one that is built in."""
        return named_plan(None if self.policy in POLICIES else self.policy)

    def rights_for(self, log: Log) -> Configuration:
        """Return the configuration; the groups of `log` have equal rights if it names none."""
        if self.configuration.groups:
            return self.configuration
        groups = {job.account.group: GroupSection() for job in log.jobs}
        return replace(self.configuration, groups=groups)

    def configuration_for(self, log: Log) -> Configuration:
        """Return the configuration of the machine of `log`.

        What nobody uses of a reservation is kept, for nothing says that it is not used. A limit is
        kept to the second, without the slack that real machines need. Under `fifo` there
        are neither groups nor the burst rule: it knows no shares.
        """
        given = self.rights_for(log)
        backfill = POLICIES.get(self.policy, POLICY)
        order = replace(given.order, name=self.order, backfill=backfill)
        if self.order == FIFO:
            given, order = replace(given, groups={}), replace(order, burst=WEIGHT_MAX)
        jobs = replace(given.jobs, end_slack_s=0.0, kill_grace_s=0.0, time_limit_s=None)
        reservations = replace(given.reservations, no_show_s=None)
        return replace(given, order=order, jobs=jobs, reservations=reservations)


def machines_of(log: Log, count: int) -> Iterator[tuple[str, int]]:
    """Yield the names of so many machines, with the log's processors spread evenly over them.

    Raises:
        UsageProblem: there are more machines than the log has processors.
    """
    if count == 1:
        yield ALONE, log.processors
        return
    if count > log.processors:
        raise UsageProblem(
            "usage",
            f"{count} machines are more than the {log.processors} processors of the log",
            f"use --machines {log.processors} at most",
        )
    each, more = divmod(log.processors, count)
    for number in range(count):
        yield f"{ALONE}-{number}", each + (number < more)

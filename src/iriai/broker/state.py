"""What a broker holds between two events; nothing of it is durable."""

from __future__ import annotations

from dataclasses import dataclass, field

from iriai.broker.machines import MachineView
from iriai.broker.queues import Entry, Queues
from iriai.broker.standings import Standings
from iriai.model.account import Account
from iriai.model.configuration import Configuration
from iriai.model.resources import Resources
from iriai.policy.backfill import ReservedHead
from iriai.policy.limits import CpuLimit, within_running_cap
from iriai.policy.order import Groups, GroupStanding, Order


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What a broker is told."""

    configuration: Configuration
    order: Order


@dataclass(slots=True)
class BrokerState:
    """Machines, wants, standings and reserved heads."""

    settings: BrokerSettings
    standings: Standings
    machines: dict[str, MachineView] = field(default_factory=dict)
    queues: Queues = field(init=False)
    reserved: dict[str, ReservedHead] = field(default_factory=dict)
    """By machine. At most one for each disjoint set of machines."""
    _of_users: dict[str, Account] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queues = Queues(self.settings.configuration.jobs.end_slack_s)

    @property
    def total_cpus(self) -> int:
        """Cpus of all machines in reach."""
        return sum(view.calendar.capacity.cpus for view in self.machines.values())

    @property
    def is_open(self) -> bool:
        """Whether anything could be started anywhere now."""
        return any(view.is_open for view in self.machines.values())

    def group_standings(self, wall_s: float) -> Groups:
        """Usage of each configured group and of those that accounts name; empty without groups."""
        configuration = self.settings.configuration
        if not configuration.groups:
            return {}
        usage: dict[str, float] = dict.fromkeys(configuration.groups, 0.0)
        for account in self.standings:
            usage_s = self.standings.usage_s(account, wall_s)
            usage[account.group] = usage.get(account.group, 0.0) + usage_s
        for account in self.queues.accounts:
            usage.setdefault(account.group, 0.0)
        return {
            name: GroupStanding(name, configuration.right_of_group(name), usage_s)
            for name, usage_s in usage.items()
        }

    def counts_for(self, account: Account) -> Account:
        """The account in whose name wants and use of `account` count here.

        Where no groups are configured, a user counts once, whatever group a job was handed in
        under: otherwise each Unix group of a user would be one more ticket in the draw, and one
        more name to begin anew under. The first account heard of stands for all of the user's.
        """
        if self.settings.configuration.groups:
            return account
        return self._of_users.setdefault(account.user, account)

    def running_cap(self, entry: Entry) -> CpuLimit:
        """What the running cap says of one task more.

        A reserved head of the account counts as if it ran: otherwise what fills in beside it could
        use the cap up, and the promise would be broken by its own account.
        """
        account = entry.want.account
        cpus = self.standings.running_cpus(account)
        for head in self.reserved.values():
            if head.job != entry.want.job:
                reserved = self.queues.entries.get(head.job)
                if reserved is not None and reserved.want.account == account:
                    cpus += head.resources.cpus
        cap_cpus = self.settings.configuration.order.running_cap_cpus
        return within_running_cap(entry.want.resources.cpus, cpus, cap_cpus)

    def could_ever_run(self, resources: Resources) -> bool:
        """Whether some machine, and the running cap, would let a task start if nothing else ran."""
        cap_cpus = self.settings.configuration.order.running_cap_cpus
        return within_running_cap(resources.cpus, 0, cap_cpus).allowed and any(
            resources.fits_in(view.calendar.capacity) for view in self.machines.values()
        )

    def right_of(self, account: Account) -> float:
        """The user's right within the group."""
        return self.settings.configuration.right_of_user(account.group, account.user)

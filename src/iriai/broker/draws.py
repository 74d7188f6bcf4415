"""What an order is told at each draw: contenders, groups, shares; kept up rather than made anew.

An account's contender is made again when its usage or its next task changes. Usage decays alike for
all, so the others stay comparable, and all are made again when that has gone on for a while.
"""

from __future__ import annotations

from iriai.broker.queues import AccountQueue, Entry, Queues
from iriai.broker.standings import Standings
from iriai.model.account import Account
from iriai.model.configuration import Configuration
from iriai.model.ids import TaskId
from iriai.policy.limits import within_burst
from iriai.policy.order import Contender, GroupStanding, shares_wanted

AGE_PART_MAX = 1 / 2000
"""Of the half-life: contenders of that age are made again. Between two of them, usage is then at
most 0.04 % too high for one that was counted earlier: five minutes of a week."""
MEAN_STEP = 1 / 32
"""So much may the mean run time of all change before expectations are made again. It stands for a
few of each account's runs, so an account with many hardly depends on it."""


class Draws:
    """Lives as long as the broker; `begin` starts a pass."""

    def __init__(self, configuration: Configuration, standings: Standings, queues: Queues) -> None:
        self._configuration = configuration
        self._standings = standings
        self._queues = queues
        self.contenders: dict[Account, Contender] = {}
        self.entries: dict[Account, Entry] = {}
        """The task each contender stands for."""
        self._group_usage: dict[str, float] = {}
        self._counted: dict[Account, float] = {}
        """What each account's usage is in there."""
        self.groups: dict[str, GroupStanding] = {}
        """Empty without groups."""
        self._wall_s = 0.0
        self._made_wall_s: float | None = None
        self._mean_s = 0.0
        self._waiting: list[Account] = []
        """Whose shares these are."""
        self._shares: dict[Account, float] = {}

    def begin(self, wall_s: float) -> None:
        """A pass begins: take in what changed since the last."""
        self._wall_s = wall_s
        standings = self._standings
        changed = standings.take_changed()
        if self._is_old(wall_s):
            self._made_wall_s = wall_s
            self._mean_s = standings.mean_s
            self.contenders.clear()
            accounts = self._queues.accounts
            self.entries = {each: entry for each, entry in self.entries.items() if each in accounts}
            self._counted.clear()
            self._group_usage = dict.fromkeys(self._configuration.groups, 0.0)
            self.groups.clear()
            for name in self._group_usage:
                self._count_group(name)
            changed = list(standings) if self._configuration.groups else []
        for account in changed:
            self._recount(account)

    def stands_for(self, queue: AccountQueue) -> Entry | None:
        """The task that the account's contender stands for; None: nothing of it could ever run.

        It is the one found when the account was last drawn, or its first.
        """
        account = queue.account
        entry = self.entries.get(account)
        if entry is None or not entry.count or not entry.kind.is_possible:
            if not queue.queue.order:
                return None
            entry = self._queues.entry_of(queue.queue.order.first())
            self.renew(account, entry)
        elif account not in self.contenders:
            self.renew(account, entry)
        return entry

    def renew(self, account: Account, entry: Entry) -> bool:
        """Let the account's contender stand for that task; whether that changes its chances."""
        want = entry.want
        self.entries[account] = entry
        if self.groups and account.group not in self.groups:
            self._group_usage[account.group] = 0.0
            self._count_group(account.group)
        known = self.contenders.get(account)
        usage_s = known.usage_s if known else self._standings.usage_s(account, self._wall_s)
        contender = self.contenders[account] = Contender(
            account,
            usage_s,
            self._configuration.right_of_user(account.group, account.user),
            want.urgency,
            entry.precedence.queued_at_s,
            TaskId(want.job.home, want.job.number, 0),
            self._standings.expected_s(account, want.resources, want.limit_s),
        )
        return known is None or known[:4] != contender[:4] or known[6] != contender[6]

    def refresh(self) -> None:
        """Take in what was matched since the pass began: it counts from now on."""
        for account in self._standings.take_changed():
            self._recount(account)

    def is_within_burst(self, account: Account, entry: Entry, total_cpus: int) -> bool:
        """Whether the account may start that task though others wait; `share` has been asked."""
        running = self._standings.running_cpus(account)
        if not running:
            return True  # the rule never binds such an account, and most are
        return within_burst(
            entry.want.resources.cpus,
            running,
            self._shares.get(account, 0.0),
            total_cpus,
            burst=self._configuration.order.burst,
            others_wait=len(self._shares) > 1,
        ).allowed

    def share_out(self, waiting: list[Account]) -> None:
        """These accounts wait: shares are wanted of them from now on."""
        if waiting != self._waiting:
            self._waiting = waiting
            self._shares = shares_wanted([self.contenders[each] for each in waiting], self.groups)

    def _is_old(self, wall_s: float) -> bool:
        made_s, mean_s = self._made_wall_s, self._standings.mean_s
        if made_s is None:
            return True
        age_max_s = AGE_PART_MAX * self._configuration.order.half_life_s
        return abs(wall_s - made_s) > age_max_s or abs(mean_s - self._mean_s) > MEAN_STEP * mean_s

    def _recount(self, account: Account) -> None:
        usage_s = self._standings.usage_s(account, self._wall_s)
        known = self.contenders.get(account)
        if known is not None:
            entry = self.entries[account]
            want = entry.want
            expected_s = self._standings.expected_s(account, want.resources, want.limit_s)
            self.contenders[account] = known._replace(usage_s=usage_s, expected_s=expected_s)
        if self._configuration.groups:
            name = account.group
            used_s = self._group_usage.get(name, 0.0) - self._counted.get(account, 0.0) + usage_s
            self._group_usage[name] = max(0.0, used_s)
            self._counted[account] = usage_s
            self._count_group(name)

    def _count_group(self, name: str) -> None:
        right = self._configuration.right_of_group(name)
        self.groups[name] = GroupStanding(name, right, self._group_usage[name])

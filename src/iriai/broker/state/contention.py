"""The contenders of each draw, with groups and shares; updated incrementally.

An account's contender is computed again when its usage or its next task changes. Usage decays at
the same rate for all, so the others stay comparable; all are computed again after some time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from iriai.broker.queue.entries import Queue, QueuedJob, SubQueue
from iriai.broker.state.account_queues import AccountQueues
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.model.ids import Account, TaskId
from iriai.model.ranks import ONE
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import (
    Contender,
    GroupShare,
    GroupUsage,
    Order,
    group_shares,
)
from iriai.policy.placement.calendar import is_below
from iriai.protocol.messages.scheduling import Want

_WORD = (1 << 64) - 1
_STRIDE = 0x9E3779B97F4A7C15
_FIRST_FACTOR, _SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_DOUBLE_BITS = 53


class DecisionRng(Random):
    """A random number generator with numbers by decision; all methods use `random()`.

    The numbers of one decision are those of SplitMix64, seeded with a mixture of the seed and the
    number of the decision (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
    OOPSLA 2014, figure 16): a number costs no more than one of the usual generator, and a new
    decision almost nothing.

    A pass without a decision changes no state: the next pass draws the same numbers. So the number
    of passes has no effect on decisions. A replay, which skips passes without effect, starts each
    job at the same time as the parts with all their messages.
    """

    def __init__(self, rng: Random) -> None:
        """`rng` supplies the seed."""
        super().__init__(0)
        self._seed = rng.getrandbits(64)
        self._decisions = 0
        self._point: int | None = None
        """State after the last number of this decision; None: there was none yet."""

    def begin(self) -> None:
        """Begin a pass: start with the first number of the pending decision."""
        self._point = None

    def decided(self, count: int = 1) -> None:
        """Count a decision (a start or a kept place): later numbers belong to the next."""
        self._decisions += count
        self._point = None

    def random(self) -> float:
        """Return the next number, in [0, 1)."""
        point = self._point
        if point is None:
            point = _mixed(self._seed + self._decisions * _STRIDE)
        self._point = (point + _STRIDE) & _WORD
        return (_mixed(self._point) >> (64 - _DOUBLE_BITS)) * 2.0**-_DOUBLE_BITS


def _mixed(word: int) -> int:
    word &= _WORD
    word = ((word ^ (word >> 30)) * _FIRST_FACTOR) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND_FACTOR) & _WORD
    return word ^ (word >> 31)


AGE_PART_MAX = 1 / 2000
"""Part of the half-life after which contenders are computed again. Until then usage is at most 0.04
% too high for one that was computed earlier: five minutes of a week."""
MEAN_STEP = 1 / 32
"""Change of the mean run time of all accounts after which expected charges are computed again. The
mean stands for a few of each account's runs, so an account with many hardly depends on it."""


@dataclass(slots=True, eq=False)
class ContenderState:
    """An account with waiting tasks that could ever run, as a contender in draws."""

    account: Account
    queue: Queue
    entry: QueuedJob
    """The task that it contends with: the one found when it was last drawn, else its first."""
    in_draw: Contender = field(init=False)
    """What a draw knows of it."""
    is_within: bool | None = None
    """Whether that task is within the account's burst; None: not computed since it or the
    account's usage changed."""
    weighed: tuple[Any, ...] = field(init=False)
    """The contender as its order weighs it."""

    @property
    def level(self) -> int:
        """Return the level of the task that it contends with."""
        return self.entry.precedence.level


class Contention:
    """Lives as long as the broker; `begin` starts a pass."""

    def __init__(
        self,
        configuration: Configuration,
        order: Order,
        standings: UsageAccounts,
        queues: AccountQueues,
    ) -> None:
        self._configuration = configuration
        self._chance = order.head_chance
        self._weigh = order.weighed
        self._decay = decay_of(configuration.order)
        self._age_max_s = AGE_PART_MAX * self._decay.span_s
        self._usage = standings
        self._queues = queues
        self.contenders: dict[Account, ContenderState] = {}
        """In the order in which the accounts began to wait."""
        self.groups: dict[str, GroupUsage] = {}
        """Empty without groups."""
        self._group_usage: dict[str, float] = {}
        self._more_urgent: dict[Account, None] = {}
        """Accounts with a new task that is more urgent than the one they contend with."""
        self._counted: dict[Account, float] = {}
        """Usage of each account, as counted in the groups."""
        self._roster = -1
        """The value of `AccountQueues.roster` for which the contenders were made."""
        self._wall_s = 0.0
        self._made_wall_s: float | None = None
        self._mean_s = 0.0
        self._total_cpus = 0
        self._cpus_for_all = 0.0
        """All cpus times the burst: an account may run its share of that."""
        self._shares: dict[str, GroupShare] = {}
        """By group; the empty name without groups."""
        self._sharing: dict[Account, None] = {}
        """The accounts that share."""

    def want_added(self, want: Want) -> None:
        """Let the want's account contend with it, if it precedes the task it contends with."""
        contender = self.contenders.get(want.account)
        if contender is not None and want.urgency > contender.in_draw.urgency:
            self._more_urgent[want.account] = None

    def begin(self, wall_s: float, total_cpus: int) -> None:
        """Begin a pass with the changes since the last."""
        self._wall_s = wall_s
        is_old = self._is_old(wall_s)
        changed = self._usage.drain_changed()
        if is_old:
            changed = self._restart()
        for account in changed:
            self._recount(account)
        if is_old or self._roster != self._queues.roster:
            self._enter_all()
            self.share_out(list(self.contenders))
        if self._more_urgent:
            self._put_forward()
        if self._total_cpus != total_cpus:
            self._total_cpus = total_cpus
            self._cpus_for_all = self._configuration.order.burst * total_cpus
            self._forget_bursts()

    def begin_levels(self) -> None:
        """Let each account contend with a task of its highest level, as a pass begins."""
        for contender in self.contenders.values():
            first = contender.queue.first
            if first is not None and contender.level != first.first.level:
                self.renew(contender, self._queues.entry_of(first))

    def _put_forward(self) -> None:
        """Let accounts contend with what is more urgent than what they contended with."""
        for account in self._more_urgent:
            contender = self.contenders.get(account)
            if contender is not None and contender.queue.first is not None:
                self.renew(contender, self._queues.entry_of(contender.queue.first))
        self._more_urgent.clear()

    def refresh(self) -> list[Account]:
        """Count the matches since the pass began; return their accounts."""
        changed = self._usage.drain_changed()
        for account in changed:
            self._recount(account)
        return changed

    def share_out(self, waiting: list[Account]) -> None:
        """Set the accounts that wait: their shares limit the burst."""
        contenders, has_groups = self.contenders, bool(self.groups)
        members = [
            (account.group if has_groups else "", contenders[account].in_draw.right)
            for account in waiting
        ]
        old, self._shares = self._shares, group_shares(members, self.groups)
        before, self._sharing = self._sharing, dict.fromkeys(waiting)
        if (len(before) <= 1) is not (len(waiting) <= 1):
            self._forget_bursts()
            return
        # Who comes or goes changes the shares of its own group, mostly.
        changed = [name for name, share in self._shares.items() if share != old.get(name)]
        for contender in contenders.values() if changed else ():
            if not has_groups or contender.account.group in changed:
                contender.is_within = None
        if self._configuration.order.running_cap_cpus is not None:  # else all that wait share
            for account, contender in contenders.items():
                if (account in before) is not (account in self._sharing):
                    contender.is_within = None

    def renew(self, contender: ContenderState, entry: QueuedJob) -> float:
        """Let the account contend with that task; return the factor by which its chances change."""
        known = contender.in_draw
        self._contend(contender, entry, known.usage_s)
        return self._chance(contender.in_draw) / self._chance(known)

    def is_within_burst(self, contender: ContenderState) -> bool:
        """Return whether the account may start its task though others wait."""
        if contender.is_within is None:
            running = self._usage.running_cpus(contender.account)
            # The rule never binds an account that runs nothing.
            contender.is_within = not running or self._is_within(contender, running)
        return contender.is_within

    def _is_within(self, contender: ContenderState, running_cpus: int) -> bool:
        """Return whether what the account runs is within its share of the burst with that task."""
        account = contender.account
        if len(self._sharing) <= 1:
            return True
        share = 0.0
        if account in self._sharing:
            share = self._shares[account.group if self.groups else ""].of(contender.in_draw.right)
        limit_cpus = self._cpus_for_all * share
        return is_below(contender.entry.line.kind.total.cpus, running_cpus, limit_cpus)

    def _forget_bursts(self) -> None:
        for contender in self.contenders.values():
            contender.is_within = None

    def _enter_all(self) -> None:
        """Make a contender of each account with a line; keep existing ones."""
        self._roster = self._queues.roster
        old, self.contenders = self.contenders, {}
        for account, waiting in self._queues.accounts.items():
            first = waiting.queue.first
            if first is None:
                continue
            contender = old.get(account)
            if contender is None or contender.queue is not waiting.queue:
                contender = self._new_contender(account, waiting.queue, first)
            self.contenders[account] = contender

    def _new_contender(self, account: Account, queue: Queue, first: SubQueue) -> ContenderState:
        entry = self._queues.entry_of(first)
        if self._configuration.groups and account.group not in self.groups:
            self._group_usage[account.group] = 0.0
            self._count_group(account.group)
        contender = ContenderState(account, queue, entry)
        self._contend(contender, entry, self._usage_s(account))
        return contender

    def contender(
        self, account: Account, want: Want, queued_at_s: float, usage_s: float
    ) -> Contender:
        """Return the account as it contends with a task of `want`, having used `usage_s`."""
        taken = want.resources
        if want.shape is not ONE:
            taken = taken.times(want.shape.least)
        return Contender(
            account,
            usage_s,
            self._configuration.right_of_user(account.group, account.user),
            want.urgency,
            queued_at_s,
            TaskId(want.job.home, want.job.number, 0),
            self._usage.expected_s(account, taken, want.limit_s),
        )

    def _contend(self, contender: ContenderState, entry: QueuedJob, usage_s: float) -> None:
        """Let an account that used so much contend with a task."""
        queued_at_s = entry.precedence.queued_at_s
        contender.entry, contender.is_within = entry, None
        contender.in_draw = self.contender(contender.account, entry.want, queued_at_s, usage_s)
        contender.weighed = self._weigh(contender.in_draw)

    def _restart(self) -> list[Account]:
        """Return whether contenders are too old, so that all accounts are to be counted again."""
        self._made_wall_s = self._wall_s
        self._mean_s = self._usage.mean_s
        self._counted.clear()
        self.groups.clear()
        self._group_usage = dict.fromkeys(self._configuration.groups, 0.0)
        for name in self._group_usage:
            self._count_group(name)
        return list({**dict.fromkeys(self._usage), **dict.fromkeys(self.contenders)})

    def _is_old(self, wall_s: float) -> bool:
        made_s, mean_s = self._made_wall_s, self._usage.mean_s
        if made_s is None:
            return True
        if abs(wall_s - made_s) > self._age_max_s:
            return True
        if self._decay.epoch(wall_s) != self._decay.epoch(made_s):
            return True  # counters cannot be read as of the epoch before
        return abs(mean_s - self._mean_s) > MEAN_STEP * mean_s

    def _usage_s(self, account: Account) -> float:
        """Return what is evened, as of the last full count, so that all are comparable."""
        wall_s = self._wall_s if self._made_wall_s is None else self._made_wall_s
        return self._usage.in_draw_s(account, wall_s)

    def _recount(self, account: Account) -> None:
        usage_s = self._usage_s(account)
        contender = self.contenders.get(account)
        if contender is not None and contender.queue.first is None:
            del self.contenders[account]  # it becomes another when it waits again
        elif contender is not None:
            self._contend(contender, contender.entry, usage_s)
        if self._configuration.groups:
            name = account.group
            used_s = self._group_usage.get(name, 0.0) - self._counted.get(account, 0.0) + usage_s
            self._group_usage[name] = max(0.0, used_s)
            self._counted[account] = usage_s
            self._count_group(name)

    def _count_group(self, name: str) -> None:
        right = self._configuration.right_of_group(name)
        self.groups[name] = GroupUsage(name, right, self._group_usage[name])

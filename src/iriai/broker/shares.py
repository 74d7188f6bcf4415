"""Where each account stands: what it wants, what it got, how likely it is drawn next."""

from __future__ import annotations

from typing import NamedTuple

from iriai.broker.state import BrokerState
from iriai.model.account import Account
from iriai.model.ids import TaskId
from iriai.model.instant import Instant
from iriai.policy.order import Contender, shares_wanted


class AccountShare(NamedTuple):
    """One account's standing. Shares and rates are fractions of 1."""

    account: Account
    right: float
    usage_s: float
    running_cpus: int
    waiting_tasks: int
    share_wanted: float | None
    """Among the accounts that wait or run; None for others."""
    share_got: float | None
    """Of the decayed charges of the accounts listed; None where there are none."""
    rate: float | None
    """Of being drawn next; None where nothing waits."""


def account_shares(state: BrokerState, now: Instant) -> list[AccountShare]:
    """All accounts that have used, run or want something, by name."""
    accounts = sorted({*state.standings, *state.queues.accounts})
    usage = {account: state.standings.usage_s(account, now.wall_s) for account in accounts}
    groups = state.group_standings(now.wall_s)
    waiting, active = [], []
    for account in accounts:
        queue = state.queues.accounts.get(account)
        entry = state.queues.first(queue) if queue else None
        contender = Contender(
            account,
            usage[account],
            state.right_of(account),
            entry.want.urgency if entry else 1.0,
            entry.precedence.queued_at_s if entry else 0.0,
            TaskId(entry.want.job.home, entry.want.job.number, 0) if entry else TaskId("", 0, 0),
        )
        if entry:
            waiting.append(contender)
        if entry or state.standings.running_cpus(account):
            active.append(contender)
    wanted = shares_wanted(active, groups)
    rates = state.settings.order.rates(waiting, groups) if waiting else {}
    total_s = sum(usage.values())
    return [
        AccountShare(
            account,
            state.right_of(account),
            usage[account],
            state.standings.running_cpus(account),
            state.queues.accounts[account].ready if account in state.queues.accounts else 0,
            wanted.get(account),
            usage[account] / total_s if total_s else None,
            rates.get(account),
        )
        for account in accounts
    ]

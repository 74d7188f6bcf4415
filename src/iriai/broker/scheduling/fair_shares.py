"""The standing of each account: share wanted, share got, chance in the next draw."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from iriai.broker.state.state import BrokerState
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.resources import NOTHING
from iriai.policy.draw.order import Groups, GroupUsage, shares_wanted
from iriai.protocol.messages.scheduling import Want

_NO_WANT = Want(JobId("", 0), Account("", ""), NOTHING, None, 1.0, 0.0, 0)
"""Standing of an account without waiting tasks, or whose tasks are not first in one queue for all.
"""


class AccountShare(NamedTuple):
    """The standing of one account. Shares and rates are fractions of 1."""

    account: Account
    right: float
    usage_s: float
    running_cpus: int
    waiting_tasks: int
    share_wanted: float | None
    """Among the accounts that wait or run; None for others."""
    share_got: float | None
    """The part of the decayed charges of the accounts listed, or of what they use now, where that
    is evened; None if there are none. Charges include urgency and machine speed: an account that
    paid for urgency got less real use than this value."""
    rate: float | None
    """The chance of being drawn next; None if no task waits."""
    advance_s: float = 0.0
    """The part of the usage that was paid for urgency, beyond the ordinary price."""
    present_rate: float = 0.0
    """What its tasks are charged in a second now, where that is evened; else 0."""
    returned_s: float = 0.0
    """What is left of charges that were returned, which are not in the usage."""


def account_shares(state: BrokerState, now: Instant) -> list[AccountShare]:
    """Return all accounts that have used, run or want something, by name."""
    accounts = sorted({*state.usage, *state.queues.accounts})
    usage = {account: state.usage.usage_s(account, now.wall_s) for account in accounts}
    in_draw = {account: state.usage.in_draw_s(account, now.wall_s) for account in accounts}
    groups = _group_standings(state, in_draw)
    waiting, active = [], []
    for account in accounts:
        queue = state.queues.accounts.get(account)
        entry = state.first_of(queue) if queue else None
        want = entry.want if entry else _NO_WANT
        queued_at_s = entry.precedence.queued_at_s if entry else inf
        contender = state.contention.contender(account, want, queued_at_s, in_draw[account])
        if queue:
            waiting.append(contender)
        if queue or state.usage.running_cpus(account):
            active.append(contender)
    wanted = shares_wanted(active, groups)
    rates = state.settings.order.rates(waiting, groups) if waiting else {}
    total_s = sum(in_draw.values())
    return [
        AccountShare(
            account,
            state.settings.configuration.right_of_user(*account),
            usage[account],
            state.usage.running_cpus(account),
            state.queues.accounts[account].ready if account in state.queues.accounts else 0,
            wanted.get(account),
            in_draw[account] / total_s if total_s else None,
            rates.get(account),
            min(usage[account], state.usage.advance_s(account, now.wall_s)),
            state.usage.rate(account),
            state.usage.returned_s(account, now.wall_s),
        )
        for account in accounts
    ]


def _group_standings(state: BrokerState, in_draw: Mapping[Account, float]) -> Groups:
    """Return usage of each configured group and of accounts' groups; empty without groups."""
    configuration = state.settings.configuration
    if not configuration.groups:
        return {}
    usage: dict[str, float] = dict.fromkeys(configuration.groups, 0.0)
    for account, usage_s in in_draw.items():
        usage[account.group] = usage.get(account.group, 0.0) + usage_s
    return {
        name: GroupUsage(name, configuration.right_of_group(name), usage_s)
        for name, usage_s in usage.items()
    }

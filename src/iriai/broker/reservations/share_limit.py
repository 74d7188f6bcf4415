"""How much of the cluster an account may have reserved ahead (docs/spec/017, section 8).

Its share, by rights among the accounts that reserve, wait, run, or were charged within the last
half-life, of the nodes that the broker knows, over the horizon. In node seconds: a booking counts
by the largest part that it takes of any resource of its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from iriai.broker.state.state import BrokerState
from iriai.model.ids import Account, ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import LENGTH_MIN_S
from iriai.model.units import format_duration
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import GroupUsage, group_shares
from iriai.protocol.messages.reservations import SeekNodes

HOUR_S = 3600.0
OFFERED_S = 10.0
"""For so long an offer counts as if it were booked: within that time machines tell of it."""
OFFERED_MAX = 1_024
"""Offers that count; beyond it the oldest no longer does."""
ROUNDING_S = 1e-6


class _Offered(NamedTuple):
    account: Account
    node_s: float
    until_s: float


class ShareLimit:
    """Lives as long as the offers of a broker."""

    def __init__(self, state: BrokerState) -> None:
        order = state.settings.configuration.order
        self._state = state
        self._span_s = decay_of(order).span_s
        self._offered: dict[ReservationId, _Offered] = {}
        """By reservation, the latest last: what machines may not have told yet."""

    def note(self, seek: SeekNodes, machines: Sequence[str], now: Instant) -> None:
        """Note what was offered to a home."""
        self._offered.pop(seek.reservation, None)
        node_s = self._nodes(seek, machines) * seek.terms.length_s
        offered = _Offered(seek.terms.account, node_s, now.steady_s + OFFERED_S)
        self._offered[seek.reservation] = offered
        if len(self._offered) > OFFERED_MAX:
            del self._offered[next(iter(self._offered))]

    def over(self, seek: SeekNodes, machines: Sequence[str], now: Instant) -> Reason | None:
        """Return why an account may not have these machines as well; None: it may."""
        account, length_s = seek.terms.account, seek.terms.length_s
        allowed_s = self.allowed_s(account, now)
        had_s = self.had_s(account, seek.reservation, now)
        nodes = self._nodes(seek, machines)
        left_s = allowed_s - had_s
        if nodes * length_s <= left_s + ROUNDING_S:
            return None
        shorter_s, fewer = left_s / nodes, int(left_s / length_s * len(machines) / nodes)
        others = []
        if fewer >= 1:
            others.append(f"{fewer} of these nodes")
        if shorter_s >= LENGTH_MIN_S:
            others.append(f"all for {format_duration(shorter_s // LENGTH_MIN_S * LENGTH_MIN_S)}")
        nearest = " or ".join(others) + " would do" if others else "no more will do now"
        return Reason(
            Rule.RESERVATION_SHARE,
            f"{nodes * length_s / HOUR_S:.1f} node hours",
            f"{account} has {had_s / HOUR_S:.1f} reserved of {allowed_s / HOUR_S:.1f} that are its "
            f"share; {nearest}",
        )

    def allowed_s(self, account: Account, now: Instant) -> float:
        """Return the node seconds ahead that an account may have."""
        state = self._state
        horizon_s = state.settings.configuration.reservations.horizon_s
        return self._share(account, now) * len(state.machines) * horizon_s

    def had_s(self, account: Account, other_than: ReservationId, now: Instant) -> float:
        """Return the node seconds ahead that it has, without one reservation."""
        known: dict[ReservationId, None] = {}
        node_s = 0.0
        for view in self._state.index.booked.of_account(account):
            capacity = view.calendar.capacity
            for span in view.calendar.bookings:
                if span.account == account and span.reservation != other_than:
                    known[span.reservation] = None
                    left_s = max(0.0, span.end_s - max(span.start_s, now.steady_s))
                    node_s += span.resources.part_of(capacity) * left_s
        for reservation in [r for r, o in self._offered.items() if o.until_s <= now.steady_s]:
            del self._offered[reservation]
        for reservation, offered in self._offered.items():
            is_other = reservation != other_than and reservation not in known
            if is_other and offered.account == account:
                node_s += offered.node_s
        return node_s

    def _nodes(self, seek: SeekNodes, machines: Iterable[str]) -> float:
        """Return how many whole nodes a reservation would take."""
        capacities = [self._state.machines[name].calendar.capacity for name in machines]
        return sum((seek.terms.resources or each).part_of(each) for each in capacities)

    def _share(self, account: Account, now: Instant) -> float:
        """Return the part of the cluster that is an account's by rights."""
        configuration = self._state.settings.configuration
        members = [
            (each.group if configuration.groups else "", configuration.right_of_user(*each))
            for each in self._active(account, now)
        ]
        names = dict.fromkeys(name for name, _ in members) if configuration.groups else {}
        groups = {name: GroupUsage(name, configuration.right_of_group(name), 0.0) for name in names}
        name, right = members[0]
        return group_shares(members, groups)[name].of(right)

    def _active(self, account: Account, now: Instant) -> Iterable[Account]:
        """Return the accounts among which it is shared, `account` first."""
        state = self._state
        usage, since_wall_s = state.usage, now.wall_s - self._span_s
        used = [
            each
            for each in usage
            if usage.running_cpus(each) or usage.is_charged_since(each, since_wall_s)
        ]
        return dict.fromkeys((account, *used, *state.queues.accounts, *state.index.booked.accounts))

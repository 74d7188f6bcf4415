"""Words for the stories of this folder: contenders, groups, and a room with feedback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from iriai.model.ids import Account, TaskId
from iriai.plugins.orders import order_named
from iriai.policy.draw.order import (
    NO_GROUPS,
    Contender,
    Groups,
    GroupUsage,
    Order,
    OrderSettings,
)

FLOOR_S = 1.0
CHARGE_S = 10.0


def account(text: str) -> Account:
    """`lab/ann`, or `ann` where groups play no part."""
    group, _, user = text.rpartition("/")
    return Account(group, user)


def contender(
    text: str,
    usage_s: float,
    right: float = 1.0,
    urgency: float = 1.0,
    queued_at_s: float = 0.0,
    number: int = 1,
    expected_s: float = CHARGE_S,
) -> Contender:
    head = TaskId("ume", number, 0)
    return Contender(account(text), usage_s, right, urgency, queued_at_s, head, expected_s)


def groups(**standings: tuple[float, float]) -> Groups:
    """Each group's right and usage."""
    return {name: GroupUsage(name, *standing) for name, standing in standings.items()}


def order(name: str, floor_s: float = FLOOR_S) -> Order:
    return order_named(name, OrderSettings(usage_floor_s=floor_s))


def by_name(rates: Mapping[Account, float]) -> dict[str, float]:
    """The same with accounts written as in `account`."""
    return {str(a).lstrip("/"): rate for a, rate in rates.items()}


@dataclass
class Room:
    """One machine that runs one job after the other; everybody always has a job waiting.

    A job costs `CHARGE_S`, or what `costs_s` says, times its urgency. What is counted is the real
    use, without urgency.
    """

    order: Order
    users: Mapping[str, float]
    """The right of each account."""
    group_rights: Mapping[str, float] = field(default_factory=dict)
    """Empty: no groups."""
    urgencies: Mapping[str, float] = field(default_factory=dict)
    costs_s: Mapping[str, float] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    """Charged so far; may be given to begin with."""

    def shares_after(self, jobs: int, seed: int = 1) -> dict[str, float]:
        """Each account's part of the use of `jobs` jobs."""
        rng = Random(seed)
        used_s: dict[str, float] = dict.fromkeys(self.users, 0.0)
        for _ in range(jobs):
            chosen = self.order.choose(self._contenders(), self._groups(), rng)
            name = str(chosen).lstrip("/")
            charge_s = self._cost_s(name) * self._urgency(name)
            self.usage[name] = self.usage.get(name, 0.0) + charge_s
            used_s[name] += self._cost_s(name)
        return {name: used_s[name] / sum(used_s.values()) for name in self.users}

    def rates(self) -> Mapping[Account, float]:
        """How likely each account is next."""
        return self.order.rates(self._contenders(), self._groups())

    def _urgency(self, name: str) -> float:
        return self.urgencies.get(name, 1.0)

    def _cost_s(self, name: str) -> float:
        return self.costs_s.get(name, CHARGE_S)

    def _contenders(self) -> list[Contender]:
        return [
            contender(
                name,
                self.usage.get(name, 0.0),
                right,
                self._urgency(name),
                expected_s=self._cost_s(name),
            )
            for name, right in self.users.items()
        ]

    def _groups(self) -> Groups:
        if not self.group_rights:
            return NO_GROUPS
        used = dict.fromkeys(self.group_rights, 0.0)
        for name, usage_s in self.usage.items():
            used[account(name).group] += usage_s
        return groups(**{name: (right, used[name]) for name, right in self.group_rights.items()})

"""The plug-in interface of an order: whose head task is next.

In: one contender for each account with a task that could run, and what the groups stand at. Out:
one account, or the probability of each. An order keeps nothing between two calls, so a new broker
draws as the old one would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random
from types import MappingProxyType
from typing import NamedTuple, Protocol

from iriai.model.ids import Account, TaskId


class Contender(NamedTuple):
    """One account with a ready task, as it stands in the next draw.

    All amounts are finite; the caller has checked what came from outside.
    """

    account: Account
    usage_s: float
    """Decayed charge plus provisional charges of running tasks; the order applies the floor."""
    right: float
    """Of the user within the group, more than 0."""
    urgency: float
    """`-p` of the account's head task, at least 1."""
    queued_at_s: float
    """When the head task began to wait; any clock, the same one for all contenders."""
    head: TaskId
    """The task that would run: the account's first by urgency, time waited, id."""
    expected_s: float
    """What that task is expected to be charged, without its urgency; more than 0. See
    `policy.accounting.runtime_estimates`."""


class GroupStanding(NamedTuple):
    """One group, as it stands in the next draw."""

    group: str
    right: float
    """More than 0."""
    usage_s: float
    """Of all members, whether they contend or not, provisional charges included."""


Groups = Mapping[str, GroupStanding]
"""The groups by name. Empty: the cluster has no groups, all contenders stand on one level.
Otherwise it holds at least the group of every contender."""

NO_GROUPS: Groups = MappingProxyType({})


class Order(Protocol):
    """Who is next.

    Contenders are distinct accounts, in an order that the caller keeps stable: the same sequence
    and the same state of the generator give the same choice.
    """

    def rates(self, contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
        """The probability of each account to be chosen next; they add up to 1 (none: empty)."""
        ...

    def choose(self, contenders: Sequence[Contender], groups: Groups, rng: Random) -> Account:
        """The account whose head task is next, with the probabilities of `rates`.

        Linear in the number of contenders, and of `rng` only `random()` is used.

        Raises:
            ValueError: there are no contenders.
        """
        ...


def is_one_queue(order: Order) -> bool:
    """Whether all wait in one queue under that order, whoever they are.

    An order says so by an attribute `is_one_queue` that is true. It is then never asked who is
    next: that is the task that waits again after an attempt, is more urgent, waited longer.
    """
    return bool(getattr(order, "is_one_queue", False))


def chance_by_cost(contender: Contender) -> float:
    """By urgency, and against what the task is expected to cost."""
    return contender.urgency / contender.expected_s


def chance_by_urgency(contender: Contender) -> float:
    """By urgency alone, whatever the task costs."""
    return contender.urgency


def head_chance_of(order: Order) -> Callable[[Contender], float]:
    """What an account's chance of being drawn is proportional to, of what its head task brings.

    An order says so by a function in an attribute `head_chance`; else it is `chance_by_cost`. A
    broker that finds another task than the one it drew an account with goes by it.
    """
    chance: Callable[[Contender], float] = getattr(order, "head_chance", chance_by_cost)
    return chance


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """What an order may be told; from `[order]` of the configuration."""

    usage_floor_s: float
    """Less usage counts as this much. More than 0, since weights divide by usage."""

    def __post_init__(self) -> None:
        if not (isfinite(self.usage_floor_s) and self.usage_floor_s > 0):
            raise ValueError(f"usage_floor_s is {self.usage_floor_s}; it must be more than 0")


OrderFactory = Callable[[OrderSettings], Order]
"""What an entry point of the group `iriai.orders` names."""


def shares_wanted(contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
    """The part of the machines each contender is entitled to: `R / sum R * r / sum r`.

    Sums are over the groups with a contender, and over the contenders of the group.
    """
    members: dict[str, float] = {}
    for contender in contenders:
        name = contender.account.group if groups else ""
        members[name] = members.get(name, 0.0) + contender.right
    rights = {name: groups[name].right if groups else 1.0 for name in members}
    total = 0.0
    for right in rights.values():
        total += right
    shares = {}
    for contender in contenders:
        name = contender.account.group if groups else ""
        shares[contender.account] = rights[name] / total * contender.right / members[name]
    return shares

"""The plug-in interface of an order: whose head task is next.

In: one contender for each account with a task that could run, and what the groups stand at. Out:
one account, or the probability of each. An order keeps nothing between two calls, so a new broker
draws as the old one would have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from iriai.config.sections import Even
from iriai.model.ids import Account, TaskId


class Contender(NamedTuple):
    """One account with a ready task, in the next draw.

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
    """When the head task began to wait, on one clock for all contenders."""
    head: TaskId
    """The task that would run: the account's first by urgency, time waited, id."""
    expected_s: float
    """What that task is expected to be charged, without its urgency; more than 0. See
    `policy.accounting.runtime_estimates`."""


class GroupUsage(NamedTuple):
    """One group in the next draw."""

    group: str
    right: float
    """More than 0."""
    usage_s: float
    """Of all members, whether they contend or not, provisional charges included."""


PRESENT_S = 3600.0
"""Present use counts as that of so many seconds, so that it is usage like any other. With the usual
floor of a minute, an account that uses nothing counts as a sixtieth of one cpu: it precedes any
that uses something, and the first of several such is a matter of the draw."""


def evened_s(even: Even, used_s: float, rate: float) -> float:
    """Return what an order gets as the usage of an account, in charged seconds.

    The spaces of paper 003 (section 3.1) know what they have done for each account so far, and what
    they are doing now; so either can be evened. `used_s` is the account's usage, `rate` what its
    tasks are charged in a second now.
    """
    return used_s if even == "total" else rate * PRESENT_S


Groups = Mapping[str, GroupUsage]
"""The groups by name. Empty: the cluster has no groups, all contenders stand on one level.
Otherwise it holds at least the group of every contender."""

NO_GROUPS: Groups = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """Settings of an order, from `[order]` of the configuration."""

    usage_floor_s: float
    """Less usage counts as this much. More than 0, since weights divide by usage."""

    def __post_init__(self) -> None:
        if not (isfinite(self.usage_floor_s) and self.usage_floor_s > 0):
            raise ValueError(f"usage_floor_s is {self.usage_floor_s}; it must be more than 0")


@dataclass(frozen=True)
class Order(ABC):
    """Who is next. A subclass has `rates` and `choose`; the rest may stay as it is here.

    Contenders are distinct accounts, in an order that the caller keeps stable: the same sequence
    and the same state of the generator give the same choice.
    """

    settings: OrderSettings
    is_one_queue: ClassVar[bool] = False
    """Whether the tasks of all accounts wait in one queue. Then there is no draw: tasks that are
    queued again after an attempt come first, then by urgency, then by the time they waited."""

    usual: ClassVar[Mapping[str, object]] = MappingProxyType({})
    """Keys of `[order]` with another default under this order; only for built-in orders."""

    @abstractmethod
    def rates(self, contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
        """Return the probability of each account to be next; the sum is 1 (empty: none)."""

    @abstractmethod
    def choose(self, contenders: Sequence[Contender], groups: Groups, rng: Random) -> Account:
        """Return the account whose head task is next, with the probabilities of `rates`.

        Linear in the number of contenders, and of `rng` only `random()` is used.

        Raises:
            ValueError: there are no contenders.
        """

    @staticmethod
    def head_chance(contender: Contender) -> float:
        """Return the factor of an account's chance that depends on its head task.

        It is the urgency divided by the expected charge. A broker uses it if another task of a
        drawn account is to start than the one that the account contended with.
        """
        return contender.urgency / contender.expected_s

    def drawing(self, contenders: Sequence[Contender], groups: Groups) -> IncrementalDraw:
        """Return what draws several times from `contenders`; by default by `choose`."""
        return IncrementalDraw(self, contenders, groups)

    def weighed(self, contender: Contender) -> tuple[Any, ...]:
        """Return what `drawing_weighed` takes in the place of a contender; by default itself.

        A broker keeps it until the contender changes, so an order may compute here what depends on
        one contender alone.
        """
        return contender

    def drawing_weighed(self, weighed: Sequence[Any], groups: Groups) -> IncrementalDraw:
        """Return what `drawing` does, of contenders that were weighed before."""
        return self.drawing(weighed, groups)


def chance_by_urgency(contender: Contender) -> float:
    """Return the urgency: a `head_chance` that does not depend on the task's cost."""
    return contender.urgency


OrderFactory = Callable[[OrderSettings], Order]
"""What an entry point of the group `iriai.orders` names: a subclass of `Order`, say."""


class IncrementalDraw:
    """Contenders to draw from; each draw has the probabilities of `Order.rates` at that moment.

    It asks `Order.choose` each time. An order that knows a faster way returns a subclass.
    """

    def __init__(self, order: Order, contenders: Sequence[Contender], groups: Groups) -> None:
        self._order = order
        self._contenders = {contender.account: contender for contender in contenders}
        self._groups = dict(groups)

    def __len__(self) -> int:
        return len(self._contenders)

    def draw(self, rng: Random) -> Account:
        """Return the account whose head task is next; there is a contender."""
        return self._order.choose(list(self._contenders.values()), self._groups, rng)

    def replace(self, contender: Contender) -> None:
        """Take an account's new contender; ignore an account that does not contend."""
        if contender.account in self._contenders:
            self._contenders[contender.account] = contender

    def leave(self, account: Account) -> None:
        """Remove an account from the contenders; ignore one that does not contend."""
        self._contenders.pop(account, None)

    def regroup(self, group: GroupUsage) -> None:
        """Take a group's new usage; ignore a group without contenders."""
        if group.group in self._groups:
            self._groups[group.group] = group


class GroupShare(NamedTuple):
    """What the contenders of one group share."""

    part: float
    """Of all machines: the group's right by those of all groups with a contender."""
    rights: float
    """The sum of the contenders' rights."""

    def of(self, right: float) -> float:
        """Return the part of the machines of a contender with that right."""
        return self.part * right / self.rights


def group_shares(members: Iterable[tuple[str, float]], groups: Groups) -> dict[str, GroupShare]:
    """Return what each group with a contender shares among them, by group.

    `members` are the group and right of each contender; where there are no groups, all are of the
    one named "".
    """
    rights: dict[str, float] = {}
    for name, right in members:
        rights[name] = rights.get(name, 0.0) + right
    of_groups = {name: groups[name].right if groups else 1.0 for name in rights}
    total = 0.0
    for right in of_groups.values():
        total += right
    return {name: GroupShare(of_groups[name] / total, rights[name]) for name in rights}


def shares_wanted(contenders: Sequence[Contender], groups: Groups) -> dict[Account, float]:
    """Return each contender's part of the machines by rights: `R / sum R * r / sum r`.

    Sums are over the groups with a contender, and over the contenders of the group.
    """
    named = [(each.account.group if groups else "", each) for each in contenders]
    shares = group_shares([(name, each.right) for name, each in named], groups)
    return {each.account: shares[name].of(each.right) for name, each in named}

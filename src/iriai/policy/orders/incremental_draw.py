"""Several draws in a row: few contenders change between two, and the rest are not weighed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from iriai.model.account import Account
from iriai.policy.orders.order import Contender, Groups, GroupStanding, Order


class IncrementalDraw(Protocol):
    """Contenders to draw from; each draw has the probabilities of `Order.rates` at that moment."""

    def __len__(self) -> int:
        """How many contend."""
        ...

    def draw(self, rng: Random) -> Account:
        """Whose head task is next; there is a contender."""
        ...

    def replace(self, contender: Contender) -> None:
        """An account's contender changed; one that does not contend is ignored."""
        ...

    def leave(self, account: Account) -> None:
        """The account contends no more; one that does not is ignored."""
        ...

    def regroup(self, group: GroupStanding) -> None:
        """A group stands elsewhere."""
        ...


def drawing_of(order: Order, contenders: Sequence[Contender], groups: Groups) -> IncrementalDraw:
    """To draw from `contenders` under `order`.

    An order may bring its own, made by an attribute `drawing(contenders, groups)`; else it is asked
    to choose from all contenders each time.
    """
    own: Callable[[Sequence[Contender], Groups], IncrementalDraw] | None = getattr(
        order, "drawing", None
    )
    return own(contenders, groups) if own else AskedEachTime(order, contenders, groups)


class AskedEachTime:
    """By `Order.choose`."""

    def __init__(self, order: Order, contenders: Sequence[Contender], groups: Groups) -> None:
        self._order = order
        self._contenders = {contender.account: contender for contender in contenders}
        self._groups = dict(groups)

    def __len__(self) -> int:
        return len(self._contenders)

    def draw(self, rng: Random) -> Account:
        """See `IncrementalDraw.draw`."""
        return self._order.choose(list(self._contenders.values()), self._groups, rng)

    def replace(self, contender: Contender) -> None:
        """See `IncrementalDraw.replace`."""
        if contender.account in self._contenders:
            self._contenders[contender.account] = contender

    def leave(self, account: Account) -> None:
        """See `IncrementalDraw.leave`."""
        self._contenders.pop(account, None)

    def regroup(self, group: GroupStanding) -> None:
        """See `IncrementalDraw.regroup`."""
        if group.group in self._groups:
            self._groups[group.group] = group

"""Kinds of tasks: those that fit alike, because they take the same and stay as long at most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from iriai.broker.shapes import Mask, Shapes, bins_of
from iriai.model.account import Account
from iriai.model.resources import Resources

if TYPE_CHECKING:
    from iriai.broker.queues import Line
    from iriai.policy.demand import Demand, DemandKey


class Bounds(NamedTuple):
    """On which machines tasks may run at all."""

    only: tuple[str, ...] = ()
    """These; empty: any."""
    turned_away: frozenset[str] = frozenset()
    """Machines that do not run tasks of this user and home, as they said."""

    def admit(self, machine: str) -> bool:
        """Whether that machine is within them."""
        return machine not in self.turned_away and (not self.only or machine in self.only)


class KindKey(NamedTuple):
    """What makes tasks fit alike."""

    resources: Resources
    stay_s: float | None
    """At most; None: open."""
    exclusive: bool = False
    """Whether it takes a whole machine."""
    tenant: str = ""
    """Who it counts as where a machine runs one task of each at a time; empty elsewhere."""
    capped: Account | None = None
    """Its account where all wait in one queue and each has a cap; None elsewhere."""
    demand: DemandKey | None = None
    """What it and machines ask of each other beside room; None: nothing."""
    bounds: Bounds | None = None
    """Machines that are out of the question whatever they have; None: none is."""
    is_guest: bool = False
    """Whether another cluster's broker passed it on: no place is kept for it."""


class Kind:
    """One kind of which tasks wait."""

    __slots__ = (
        "bit",
        "demand",
        "held",
        "is_possible",
        "is_settled",
        "key",
        "lines",
        "looked",
        "position",
        "unreservable",
    )

    def __init__(self, key: KindKey, position: int) -> None:
        self.key = key
        self.position = position
        self.bit: Mask = 1 << position
        """Of its shape."""
        self.demand: Demand | None = None
        """Which machines match; None: all."""
        self.lines: list[Line] = []
        """Its tasks, a line for each queue that has some."""
        self.is_possible = False
        """Whether it could run somewhere if nothing else did. Otherwise it stands aside."""
        self.is_settled = True
        """Whether it is known to fit on no machine but those with new room."""
        self.looked = -1
        """When it was last found to fit nowhere, as `Rooms` counts."""
        self.held = -1
        """What reserved heads hold (`Heads.held`) when no place is kept for it beside them."""
        self.unreservable = -1
        """As of which state of the reserved heads (`Heads.changes`) no machine takes it."""

    @property
    def is_choosy(self) -> bool:
        """Whether room is not all that decides where it may run."""
        return self.demand is not None or self.key.bounds is not None

    def may_run_on(self, machine: str) -> bool:
        """Whether job and machine both say that it may run there now, if there is room."""
        bounds = self.key.bounds
        return (bounds is None or bounds.admit(machine)) and (
            self.demand is None or self.demand.admits(machine)
        )


class Kinds:
    """All kinds of which tasks wait."""

    def __init__(self) -> None:
        self.shapes = Shapes()
        self._kinds: dict[KindKey, Kind] = {}
        self._of_shape: dict[int, dict[Kind, None]] = {}
        """By position of the shape."""
        self._unsettled: dict[Kind, None] = {}
        self._shapes: dict[int, int] = {}
        """By position: how many kinds of that shape are not settled."""
        self.unsettled: Mask = 0
        """The shapes of those."""

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._kinds.values()))

    def get(self, key: KindKey) -> Kind | None:
        """The kind with that key, where some of it wait."""
        return self._kinds.get(key)

    def make(self, key: KindKey) -> Kind:
        """A new kind, impossible until somebody says otherwise."""
        together = 0 if key.exclusive else -1
        position = self.shapes.acquire(bins_of(key.resources, key.stay_s, together))
        kind = self._kinds[key] = Kind(key, position)
        self._of_shape.setdefault(position, {})[kind] = None
        return kind

    def like(self, kind: Kind) -> Iterable[Kind]:
        """All of its shape, itself among them."""
        return self._of_shape[kind.position]

    def forget(self, kind: Kind) -> None:
        """Nothing of it waits any more."""
        self.settle(kind)
        self.shapes.release(kind.position)
        alike = self._of_shape[kind.position]
        del alike[kind]
        if not alike:
            del self._of_shape[kind.position]
        del self._kinds[kind.key]
        if kind.demand is not None:
            kind.demand.leave()

    def unsettle(self, kind: Kind) -> None:
        """It may fit anywhere, as far as is known."""
        kind.looked = -1
        if kind.is_settled:
            kind.is_settled = False
            self._unsettled[kind] = None
            self._shapes[kind.position] = self._shapes.get(kind.position, 0) + 1
            self.unsettled |= kind.bit

    def settle(self, kind: Kind) -> None:
        """It fits nowhere but perhaps on machines with new room."""
        if not kind.is_settled:
            kind.is_settled = True
            del self._unsettled[kind]
            self._shapes[kind.position] -= 1
            if not self._shapes[kind.position]:
                del self._shapes[kind.position]
                self.unsettled ^= kind.bit

    def settle_all(self) -> None:
        """No machine is open: none fits anywhere."""
        for kind in self._unsettled:
            kind.is_settled = True
        self._unsettled.clear()
        self._shapes.clear()
        self.unsettled = 0

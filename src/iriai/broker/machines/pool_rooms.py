"""How many ranks fit where: pools of machines, and what each has room for, kept with each change.

Made when the first task of several ranks waits; a broker without such tasks has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.model.ranks import SEATS_MAX, RankShape
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.seats import Room, rank_fit, ranks_in

ANSWERS_MAX = 4096
"""Answers whether a pool could hold a task that are kept; then all are found again."""
NEEDS_MAX = 64
"""Different resources of a rank for which fits are kept; then all are computed again."""


class PoolOf(NamedTuple):
    """Machines of one pool, or of all."""

    name: str
    machines: Mapping[str, MachineView]
    is_all: bool = False
    """Whether it is all machines, for a task that may take those of several pools."""


class _Fits:
    """How often one need fits on each machine, and in each pool."""

    def __init__(self, need: Resources) -> None:
        self.need = need
        self.by_machine: dict[str, int] = {}
        """Machines on which it fits."""
        self.by_pool: dict[str, int] = {}

    def update(self, view: MachineView, *, is_there: bool) -> None:
        fit = rank_fit(self.need, view.calendar.free) if is_there and view.is_open else 0
        before = self.by_machine.get(view.name, 0)
        if fit != before:
            total = self.by_pool.pop(view.pool, 0) + fit - before
            if total:
                self.by_pool[view.pool] = total
            if fit:
                self.by_machine[view.name] = fit
            else:
                del self.by_machine[view.name]


class PoolRooms:
    """Lives as long as the broker, from the first task of several ranks on."""

    def __init__(self, views: Mapping[str, MachineView]) -> None:
        self._views = views
        self._pools: dict[str, dict[str, MachineView]] = {}
        self._fits: dict[Resources, _Fits] = {}
        self._changed: dict[str, MachineView] = {}
        """Machines that changed since the fits were computed."""
        self._free: dict[str, Resources] = {}
        """What open machines have free, by machine."""
        self._totals: dict[str, Resources] = {}
        """The same, by pool."""
        self._alike: dict[str, dict[Resources, int]] = {}
        """The number of machines of each capacity, by pool."""
        self._holding: dict[tuple[str | None, Resources, RankShape], bool] = {}
        """The answers of `could_hold`; None stands for all pools."""
        self.all = PoolOf("", views, is_all=True)
        for view in views.values():
            self.changed(view)

    def changed(self, view: MachineView) -> None:
        """Note that what a machine has free may have changed, or that it is new."""
        self._changed[view.name] = view
        pool = self._pools.setdefault(view.pool, {})
        if pool.get(view.name) is not view:
            pool[view.name] = view
            alike, capacity = self._alike.setdefault(view.pool, {}), view.calendar.capacity
            alike[capacity] = alike.get(capacity, 0) + 1
            self._holding.clear()

    def dropped(self, view: MachineView) -> None:
        """Forget a machine, which may come back in another pool."""
        self._changed.pop(view.name, None)
        self._update(view, is_there=False)
        pool = self._pools.get(view.pool, {})
        if pool.pop(view.name, None) is None:
            return
        alike, capacity = self._alike[view.pool], view.calendar.capacity
        alike[capacity] -= 1
        if not alike[capacity]:
            del alike[capacity]
        if not pool:
            del self._pools[view.pool], self._alike[view.pool]
        self._holding.clear()

    def pools(self, *, is_across: bool) -> list[PoolOf]:
        """Return the pools that a task may take machines from: one of these."""
        if is_across:
            return [self.all]
        return [PoolOf(name, machines) for name, machines in self._pools.items()]

    def machines_of(self, pool: str, *, is_across: bool) -> Iterable[MachineView]:
        """Return the machines of a pool, or of all."""
        return (self._views if is_across else self._pools.get(pool, {})).values()

    def free(self) -> dict[str, Resources]:
        """Return what the open machines of each pool have free together."""
        self._refresh()
        return self._totals

    def fits(self, need: Resources) -> dict[str, int]:
        """Return how often `need` fits on each machine where it does."""
        return self._of(need).by_machine

    def unknown(self, need: Resources) -> int:
        """Return how many machines are looked at to answer for that need: none if it is kept."""
        return 0 if need in self._fits else len(self._views)

    def total(self, pool: PoolOf, need: Resources) -> int:
        """Return how often `need` fits on the machines of a pool together."""
        by_pool = self._of(need).by_pool
        return sum(by_pool.values()) if pool.is_all else by_pool.get(pool.name, 0)

    def could_hold(self, pool: PoolOf, need: Resources, shape: RankShape) -> bool:
        """Return whether a pool could hold a task if nothing ran there."""
        key = (None if pool.is_all else pool.name, need, shape)
        known = self._holding.get(key)
        if known is None:
            if len(self._holding) == ANSWERS_MAX:
                self._holding.clear()
            pools = self._alike.values() if pool.is_all else [self._alike[pool.name]]
            rooms: list[Room] = []
            for capacity, count in chain.from_iterable(alike.items() for alike in pools):
                fit = rank_fit(need, capacity)
                rooms += [Room("", fit)] * (min(count, SEATS_MAX) if fit else 0)
            known = self._holding[key] = ranks_in(rooms, shape) > 0
        return known

    def _of(self, need: Resources) -> _Fits:
        self._refresh()
        fits = self._fits.get(need)
        if fits is None:
            if len(self._fits) == NEEDS_MAX:
                self._fits.clear()
            fits = self._fits[need] = _Fits(need)
            for view in self._views.values():
                fits.update(view, is_there=True)
        return fits

    def _refresh(self) -> None:
        for view in self._changed.values():
            self._update(view, is_there=True)
        self._changed.clear()

    def _update(self, view: MachineView, *, is_there: bool) -> None:
        for fits in self._fits.values():
            fits.update(view, is_there=is_there)
        free = view.calendar.free if is_there and view.is_open else NOTHING
        before = self._free.pop(view.name, NOTHING)
        if free != NOTHING:
            self._free[view.name] = free
        if free != before:
            total = self._totals.pop(view.pool, NOTHING).minus(before).plus(free)
            if total != NOTHING:
                self._totals[view.pool] = total

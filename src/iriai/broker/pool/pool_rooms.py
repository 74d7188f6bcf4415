"""How many ranks fit where: pools of machines, and what each has room for, kept with each change.

Made when the first task of several ranks waits; a broker without such tasks has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from iriai.broker.pool.machine_view import MachineView
from iriai.model.ranks import RankShape
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.pool_plan import rank_fit
from iriai.policy.placement.seats import Room, ranks_in

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
            self.by_pool[view.pool] = self.by_pool.get(view.pool, 0) + fit - before
            if fit:
                self.by_machine[view.name] = fit
            else:
                del self.by_machine[view.name]


class PoolRooms:
    """Lives as long as the broker, from the first task of several ranks on."""

    def __init__(self, views: Mapping[str, MachineView]) -> None:
        self._views = views
        self._pools: dict[str, dict[str, MachineView]] = {}
        for view in views.values():
            self._pools.setdefault(view.pool, {})[view.name] = view
        self._fits: dict[Resources, _Fits] = {}
        self._changed: dict[str, MachineView] = {}
        """Machines that changed since the fits were computed."""
        self._free: dict[str, Resources] = {}
        """What open machines have free, by machine."""
        self._totals: dict[str, Resources] = {}
        """The same, by pool."""
        self._capacities: dict[Resources, dict[str, list[Room]]] = {}
        """How often a need fits on each machine if nothing runs there, by pool."""
        self.all = PoolOf("", views, is_all=True)
        self._changed.update(views)

    def changed(self, view: MachineView) -> None:
        """Note that what a machine has free may have changed, or that it is new."""
        self._changed[view.name] = view
        pool = self._pools.setdefault(view.pool, {})
        if pool.get(view.name) is not view:
            pool[view.name] = view
            self._capacities.clear()

    def dropped(self, view: MachineView) -> None:
        """Forget a machine."""
        self._changed[view.name] = view
        pool = self._pools.get(view.pool, {})
        if pool.pop(view.name, None) is not None and not pool:
            del self._pools[view.pool]
        self._capacities.clear()

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

    def total(self, pool: PoolOf, need: Resources) -> int:
        """Return how often `need` fits on the machines of a pool together."""
        by_pool = self._of(need).by_pool
        return sum(by_pool.values()) if pool.is_all else by_pool.get(pool.name, 0)

    def could_hold(self, pool: PoolOf, need: Resources, shape: RankShape) -> bool:
        """Return whether a pool could hold a task if nothing ran there."""
        capacities = self._capacities.get(need)
        if capacities is None:
            capacities = self._capacities[need] = {
                name: [
                    Room(view.name, fit)
                    for view in machines.values()
                    if (fit := rank_fit(need, view.calendar.capacity))
                ]
                for name, machines in self._pools.items()
            }
        if pool.is_all:
            rooms = [room for each in capacities.values() for room in each]
        else:
            rooms = capacities[pool.name]
        return ranks_in(rooms, shape) > 0

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
        for name, view in self._changed.items():
            is_there = self._views.get(name) is view
            for fits in self._fits.values():
                fits.update(view, is_there=is_there)
            free = view.calendar.free if is_there and view.is_open else NOTHING
            before = self._free.get(name, NOTHING)
            if free != before:
                total = self._totals.get(view.pool, NOTHING)
                self._totals[view.pool] = total.minus(before).plus(free)
                self._free[name] = free
        self._changed.clear()

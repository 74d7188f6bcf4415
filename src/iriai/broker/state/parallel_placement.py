"""Where the ranks of a parallel task may start now (docs/spec/011, section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iriai.broker.pool.pool import MachinePool
from iriai.broker.pool.pool_rooms import PoolOf, PoolRooms
from iriai.broker.queue.entries import TaskClass
from iriai.broker.queue.indices import SEVERAL, Mask, ShapeIndex, SizeBins, bin_of, bins_of
from iriai.broker.state.reserved_heads import ReservedHeads, has_capacity
from iriai.model.resources import Resources
from iriai.policy.placement.backfill import Backfill
from iriai.policy.placement.pool_plan import PoolHead, rank_fit, sum_of
from iriai.policy.placement.seats import Room, Seats, seats_of

if TYPE_CHECKING:
    from iriai.policy.matching.match import Demand


class ParallelPlacement:
    """Lives as long as the broker."""

    def __init__(self, park: MachinePool, heads: ReservedHeads, backfill: Backfill) -> None:
        self._park = park
        self._by_machine = heads.by_machine
        self._heads = heads.by_job
        self._backfill = backfill
        self.work = 0
        """Work so far, in examined machines."""

    @property
    def rooms(self) -> PoolRooms:
        """Return what has room for ranks; kept from the first question on."""
        return self._park.rooms

    def mask(self, shapes: ShapeIndex, now_s: float) -> Mask:
        """Return the shapes of parallel kinds that may fit in some pool."""
        free = self.rooms.free()
        mask = 0
        for name, room in free.items():
            heads = [head for head in self._heads.values() if head.is_in(name)]
            mask |= _mask_of(room, heads, shapes, now_s)
        if len(free) > 1:  # of tasks that may take machines of several pools
            mask |= _mask_of(sum_of(free.values()), list(self._heads.values()), shapes, now_s)
        return mask & shapes.wide

    def seats(self, kind: TaskClass, now_s: float) -> Seats | None:
        """Return where a task of that kind starts now; None: it does not fit."""
        key, rooms = kind.key, self.rooms
        best: tuple[float, float, str] | None = None
        found: Seats | None = None
        pools = rooms.pools(is_across=key.across_pools)
        for pool in pools:
            if rooms.total(pool, key.resources) < key.shape.least:
                continue
            if not self._backfill.passes_heads and self._is_held(pool):
                continue
            order = _order_of(pool) if len(pools) > 1 else (0.0, 0.0, "")
            if best is not None and order >= best:
                continue
            seats = self._in_pool(pool, kind, now_s)
            if seats:
                best, found = order, seats
        return found

    def could_ever_run(self, kind: TaskClass) -> bool:
        """Return whether a pool could hold a task of that kind if nothing ran."""
        key, rooms = kind.key, self.rooms
        for pool in rooms.pools(is_across=key.across_pools):
            if rooms.could_hold(pool, key.resources, key.shape):
                return not kind.is_choosy or self._could_match(pool, kind)
        return False

    def _could_match(self, pool: PoolOf, kind: TaskClass) -> bool:
        able = [
            Room(view.name, fit)
            for view in pool.machines.values()
            if (fit := rank_fit(kind.key.resources, view.calendar.capacity))
            and kind.may_run_on(view.name)
        ]
        return bool(seats_of(able, kind.key.shape))

    def _is_held(self, pool: PoolOf) -> bool:
        """Return whether a head waits in a pool."""
        return any(name in pool.machines for name in self._by_machine) or any(
            pool.is_all or head.is_in(pool.name) for head in self._heads.values()
        )

    def _in_pool(self, pool: PoolOf, kind: TaskClass, now_s: float) -> Seats:
        views = pool.machines
        able = list(self._rooms_in(pool, kind, now_s))
        able.sort(key=lambda room: views[room.machine].rank())
        if kind.demand is not None and kind.demand.is_ranked:
            able = _tiered(able, kind.demand)
        seats = seats_of(able, kind.key.shape)
        claims = [(seat.machine, kind.key.resources.times(seat.ranks)) for seat in seats]
        heads = self._heads.values()
        if all(head.tolerates_all(claims, kind.key.stay_s, now_s) for head in heads):
            return seats
        return ()

    def _rooms_in(self, pool: PoolOf, kind: TaskClass, now_s: float) -> Iterator[Room]:
        """Yield the machines of a pool on which ranks may start, each with how many."""
        key = kind.key
        for name, fit in self.rooms.fits(key.resources).items():
            view = pool.machines.get(name)
            if view is None or not has_capacity(view, kind):
                continue
            self.work += 1
            ranks, head = min(fit, key.shape.most), self._by_machine.get(name)
            if head is not None:
                while ranks and not head.tolerates(key.resources.times(ranks), key.stay_s, now_s):
                    ranks -= 1
            if ranks:
                yield Room(name, ranks)


def _mask_of(room: Resources, heads: list[PoolHead], shapes: ShapeIndex, now_s: float) -> Mask:
    """Return the shapes that may fit into a pool's room beside its heads."""
    bins = bins_of(room, None, SEVERAL)
    if not heads:
        return shapes.fitting(bins)
    mask = 0
    for head in heads:
        spare = bins_of(head.spare, None, SEVERAL)
        mask |= shapes.fitting(SizeBins(*map(min, bins, spare)))
        if head.start_s > now_s:
            mask |= shapes.fitting(bins._replace(stay=bin_of(int(head.start_s - now_s) + 1)))
    return mask


def _tiered(rooms: list[Room], demand: Demand) -> list[Room]:
    """Return the machines, each with its tier by the ranks of job and owner."""
    orders = {room.machine: demand.order(room.machine) for room in rooms}
    tiers = {order: tier for tier, order in enumerate(sorted(set(orders.values())))}
    return [room._replace(tier=tiers[orders[room.machine]]) for room in rooms]


def _order_of(pool: PoolOf) -> tuple[float, float, str]:
    """Return the order of pools: the lower load relative to speed, the faster, the name."""
    load = speed = 0.0
    for view in pool.machines.values():
        capacity = view.calendar.capacity.cpus
        load += max(view.load, view.foreign_load + capacity - view.calendar.free.cpus)
        speed += capacity * view.speed
    return (load / speed, -speed, pool.name) if speed else (0.0, 0.0, pool.name)

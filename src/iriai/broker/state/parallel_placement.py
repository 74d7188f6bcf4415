"""Where the ranks of a parallel task may start now (docs/spec/011, section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iriai.broker.machines.beside_bookings import ranks_beside
from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.pool_rooms import PoolOf, PoolRooms
from iriai.broker.machines.pools import PoolLoad
from iriai.broker.queue.entries import TaskClass
from iriai.broker.queue.indices import SEVERAL, Mask, ShapeIndex, SizeBins, bin_of, bins_of
from iriai.broker.state.reserved_heads import ReservedHeads, has_capacity, kept_for
from iriai.model.ids import JobId
from iriai.model.resources import Resources
from iriai.policy.placement.backfill import Backfill
from iriai.policy.placement.pool_plan import PoolHead, sum_of
from iriai.policy.placement.seats import Room, Seats, rank_fit, seats_of

if TYPE_CHECKING:
    from iriai.policy.matching.match import Demand


NEW_NEEDS_LOOKS_MAX = 20_000
"""Machines that one pass looks at for needs of which nothing is kept: some 10 ms. Kinds beyond that
are left for later passes: thousands of needs, of which each takes a look at all machines, would
make everybody wait."""


class ParallelPlacement:
    """Lives as long as the broker."""

    def __init__(self, index: MachineIndex, heads: ReservedHeads, backfill: Backfill) -> None:
        self._index = index
        self._by_machine = heads.by_machine
        self._heads = heads.by_job
        self._backfill = backfill
        self.work = 0
        """Work so far, in examined machines."""
        self._new_looks = 0
        """Machines looked at in this pass for needs of which nothing was kept."""

    @property
    def rooms(self) -> PoolRooms:
        """Return what has room for ranks; kept from the first question on."""
        return self._index.rooms

    def mask(self, shapes: ShapeIndex, now_s: float) -> Mask:
        """Return the shapes of parallel kinds that may fit in some pool."""
        free = self.rooms.free()
        mask = 0
        for name, room in free.items():
            heads = [(each, each.spare) for each in self._heads.values() if each.is_in(name)]
            mask |= _mask_of(room, heads, shapes, now_s)
        if len(free) > 1:  # of tasks that may take machines of several pools
            heads = []
            for head in self._heads.values():
                others = sum_of(room for name, room in free.items() if not head.is_in(name))
                heads.append((head, head.spare.plus(others)))
            mask |= _mask_of(sum_of(free.values()), heads, shapes, now_s)
        return mask & shapes.wide

    def begin(self) -> None:
        """Begin a pass."""
        self._new_looks = 0

    def is_too_much(self, kind: TaskClass) -> bool:
        """Return whether this pass has looked at enough machines for needs that are new."""
        is_spent = self._new_looks >= NEW_NEEDS_LOOKS_MAX
        return is_spent and self.rooms.unknown(kind.key.resources) > 0

    def seats(self, kind: TaskClass, now_s: float) -> Seats | None:
        """Return where a task of that kind starts now; None: it does not fit."""
        key, rooms = kind.key, self.rooms
        best: tuple[float, float, str] | None = None
        found: Seats | None = None
        pools = rooms.pools(is_across=key.across_pools)
        new = rooms.unknown(key.resources)
        self.work += new
        self._new_looks += new
        for pool in pools:
            if rooms.total(pool, key.resources) < key.shape.least:
                continue
            if not self._backfill.passes_heads and self.is_held(pool):
                continue
            if not self._may_pass(pool, kind, now_s):
                continue
            is_one = len(pools) == 1
            order = (0.0, 0.0) if is_one else PoolLoad.of(pool.machines.values()).order
            if best is not None and (*order, pool.name) >= best:
                continue
            seats = self._in_pool(pool, kind, now_s)
            if seats:
                best, found = (*order, pool.name), seats
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

    def is_held(self, pool: PoolOf) -> bool:
        """Return whether a head waits in a pool."""
        return any(name in pool.machines for name in self._by_machine) or any(
            pool.is_all or head.is_in(pool.name) for head in self._heads.values()
        )

    def _may_pass(self, pool: PoolOf, kind: TaskClass, now_s: float) -> bool:
        """Return False where a task delays a head on whichever machines of a pool it starts."""
        key = kind.key
        return all(
            head.allows(key.resources, key.shape.least, key.stay_s, now_s)
            for head in self._heads.values()
            if (head.is_across if pool.is_all else head.is_in(pool.name))
        )

    def _in_pool(self, pool: PoolOf, kind: TaskClass, now_s: float) -> Seats:
        views = pool.machines
        able = list(self.rooms_in(pool, kind, now_s))
        able.sort(key=lambda room: views[room.machine].rank())
        if kind.demand is not None and kind.demand.is_ranked:
            able = _tiered(able, kind.demand)
        seats = seats_of(able, kind.key.shape)
        heads = [
            head for head in self._heads.values() if not head.starts_after(kind.key.stay_s, now_s)
        ]
        if not seats or self._delayed(seats, kind, heads, now_s) is None:
            return seats
        return self._beside(heads, able, kind, now_s, is_all=pool.is_all)

    def _beside(
        self,
        heads: list[PoolHead],
        able: list[Room],
        kind: TaskClass,
        now_s: float,
        *,
        is_all: bool,
    ) -> Seats:
        """Return seats where those that are preferred would delay a head; empty: all would.

        Either fewer ranks, or those where no head has a place. `is_all`: of all pools.
        """
        need, shape = kind.key.resources, kind.key.shape
        seats: Seats = ()
        low, high = shape.least, shape.most - 1
        while low <= high:
            ranks = (low + high) // 2
            fewer = seats_of(able, shape._replace(most=ranks))
            if not fewer or self._delayed(fewer, kind, heads, now_s) is None:
                seats, low = fewer or seats, ranks + 1
            else:
                high = ranks - 1
        if seats:
            return seats
        everywhere = [head for head in heads if head.is_across or not is_all]
        if kind.key.exclusive or any(head.need.fits_in(need) for head in everywhere):
            return ()  # each rank takes a place, wherever it is
        spared = [
            room._replace(fit=fit)
            for room in able
            if (fit := min(head.spared(room.machine, need, room.fit) for head in heads))
        ]
        return seats_of(spared, shape)

    def head_before(
        self, seats: Seats, kind: TaskClass, now_s: float, job: JobId | None = None
    ) -> PoolHead | None:
        """Return the parallel head that a task there would delay; None: it delays none.

        `job` is its own, which may be one.
        """
        heads = [head for head in self._heads.values() if head.job != job]
        return self._delayed(seats, kind, heads, now_s)

    def _delayed(
        self, seats: Seats, kind: TaskClass, heads: list[PoolHead], now_s: float
    ) -> PoolHead | None:
        """Return the first of the heads that a task would delay by starting there."""
        views, stay_s = self._index.views, kind.key.stay_s
        claims = [(name, kept_for(kind, views[name], ranks)) for name, ranks in seats]
        delayed = (head for head in heads if not head.tolerates_all(claims, stay_s, now_s))
        return next(delayed, None)

    def rooms_in(self, pool: PoolOf, kind: TaskClass, now_s: float) -> Iterator[Room]:
        """Yield the machines of a pool on which ranks may start, each with how many."""
        key = kind.key
        for name, fit in self.rooms.fits(key.resources).items():
            view = pool.machines.get(name)
            if view is None or not has_capacity(view, kind, now_s):
                continue
            self.work += 1
            ranks, head = min(fit, key.shape.most), self._by_machine.get(name)
            if head is not None:
                while ranks and not head.tolerates(key.resources.times(ranks), key.stay_s, now_s):
                    ranks -= 1
            if ranks and view.calendar.bookings:
                ranks = ranks_beside(view.calendar, key, ranks, now_s)
            if ranks:
                yield Room(name, ranks)


def _mask_of(
    room: Resources, heads: list[tuple[PoolHead, Resources]], shapes: ShapeIndex, now_s: float
) -> Mask:
    """Return the shapes that may fit into a room beside heads, each with what it leaves there."""
    bins = bins_of(room, None, SEVERAL)
    if not heads:
        return shapes.fitting(bins)
    mask = 0
    for head, left in heads:
        spare = bins_of(left, None, SEVERAL)
        mask |= shapes.fitting(SizeBins(*map(min, bins, spare)))
        if head.start_s > now_s:
            mask |= shapes.fitting(bins._replace(stay=bin_of(int(head.start_s - now_s) + 1)))
    return mask


def _tiered(rooms: list[Room], demand: Demand) -> list[Room]:
    """Return the machines, each with its tier by the ranks of job and owner."""
    orders = {room.machine: demand.order(room.machine) for room in rooms}
    tiers = {order: tier for tier, order in enumerate(sorted(set(orders.values())))}
    return [room._replace(tier=tiers[orders[room.machine]]) for room in rooms]

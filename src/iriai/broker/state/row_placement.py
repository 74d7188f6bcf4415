"""Where a gang may start in a row of time slices, beside others that run in other rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from iriai.broker.machines.beside_bookings import starts_before_bookings
from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.machines.pool_rooms import PoolOf
from iriai.broker.queue.entries import TaskClass
from iriai.broker.state.parallel_placement import ParallelPlacement
from iriai.broker.state.preemptible_claims import PreemptibleClaims
from iriai.broker.state.preemptible_task import has_all
from iriai.broker.state.reserved_heads import ReservedHeads
from iriai.model.ids import JobId
from iriai.policy.placement.seats import Room, Seat, Seats, rank_fit, seats_of


class Row(NamedTuple):
    """Places of a gang in one row."""

    row: int
    seats: Seats


class RowPlacement:
    """Lives as long as the broker."""

    def __init__(
        self,
        index: MachineIndex,
        heads: ReservedHeads,
        parallel: ParallelPlacement,
        claims: PreemptibleClaims,
    ) -> None:
        self._index = index
        self._heads = heads
        self._parallel = parallel
        self._claims = claims
        self._job: JobId | None = None
        self.work = 0
        """Work so far, in examined machines."""

    def row(
        self, kind: TaskClass, level: int, now_s: float, job: JobId | None = None
    ) -> Row | None:
        """Return where a gang of that level starts now, in the first row with room; None: nowhere.

        It delays no head there, as if it had none of its time slices to give to others; `job` is
        its own, which may be one.
        """
        self._job = job
        if not self._claims.by_machine:
            return None
        for pool in self._index.rooms.pools(is_across=kind.key.across_pools or not kind.is_wide):
            for row in range(self._claims.rows.rows_max):
                if not self._may_hold(pool, kind, row):
                    continue
                seats = self._in_row(pool, kind, level, row, now_s)
                if seats:
                    return Row(row, seats)
        return None

    def _may_hold(self, pool: PoolOf, kind: TaskClass, row: int) -> bool:
        """Return False if a pool has not so many cpus in a row, on whichever machines."""
        free, cpus = self._index.rooms.free(), 0
        for each in self._index.rooms.pools(is_across=False) if pool.is_all else [pool]:
            cpus += self._claims.rows.extra_cpus(each.name, row)
            if each.name in free:
                cpus += free[each.name].cpus
        return kind.key.resources.cpus * kind.key.shape.least <= cpus

    def _in_row(self, pool: PoolOf, kind: TaskClass, level: int, row: int, now_s: float) -> Seats:
        rooms = list(self._rooms(pool, kind, level, row, now_s))
        if sum(room.fit for room in rooms) < kind.key.shape.least:
            return ()
        rooms.sort(key=lambda room: pool.machines[room.machine].rank())
        if kind.is_wide:
            seats = seats_of(rooms, kind.key.shape)
        else:
            seats = [Seat(rooms[0].machine, 1)] if rooms else []
        need = kind.key.resources
        if any(has_all(pool.machines[name], need.times(ranks)) for name, ranks in seats):
            return ()  # such a task takes no turns
        if seats and self._parallel.head_before(seats, kind, now_s, self._job) is not None:
            return ()
        return seats

    def _rooms(
        self, pool: PoolOf, kind: TaskClass, level: int, row: int, now_s: float
    ) -> Iterator[Room]:
        key, most = kind.key, kind.key.shape.most
        for name, free in self._index.rooms.fits(key.resources).items():
            view = pool.machines.get(name)
            if view is not None and not view.row_cpus and self._may_run_on(view, kind, now_s):
                fit = self._beside_head(view, kind, min(free, most), now_s)
                if fit:
                    yield Room(name, fit)
        for name in self._claims.by_machine:
            view = pool.machines.get(name)
            if view is None or not view.row_cpus or not self._may_run_on(view, kind, now_s):
                continue
            self.work += 1
            cpus = self._claims.rows.free_cpus(view, row, level)
            fit = min(most, rank_fit(key.resources, replace(view.calendar.free, cpus=cpus)))
            fit = self._beside_head(view, kind, fit, now_s)
            if fit > 0:
                yield Room(name, fit)

    def _may_run_on(self, view: MachineView, kind: TaskClass, now_s: float) -> bool:
        return (
            view.is_open
            and (view.has_clock or not view.mints)
            and kind.key.tenant not in view.tenants
            and (not kind.is_choosy or kind.may_run_on(view.name))
            and (
                not view.calendar.bookings
                or starts_before_bookings(view.calendar, kind.planned_s, now_s)
            )
        )

    def _beside_head(self, view: MachineView, kind: TaskClass, ranks: int, now_s: float) -> int:
        """Return how many of the ranks delay no head of that machine."""
        head = self._heads.by_machine.get(view.name)
        if head is not None and head.job != self._job:
            resources, stay_s = kind.key.resources, kind.key.stay_s
            while ranks > 0 and not head.tolerates(resources.times(ranks), stay_s, now_s):
                ranks -= 1
        return ranks

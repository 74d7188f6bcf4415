"""Placement: where a task may start now, and which classes of tasks may start at all.

After a pass no waiting task fits. So the next pass looks only at machines with newly free
resources, and at all machines for new kinds of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import TaskClass
from iriai.broker.queue.indices import Mask, SizeBins, bin_of, bins_of
from iriai.broker.state.account_queues import AccountQueues
from iriai.broker.state.booking_placement import BookingPlacement
from iriai.broker.state.parallel_placement import ParallelPlacement
from iriai.broker.state.preemptible_claims import PreemptibleClaims
from iriai.broker.state.reserved_heads import ReservedHeads, has_capacity
from iriai.broker.state.row_placement import RowPlacement
from iriai.model.ids import Account, JobId
from iriai.model.resources import Resources
from iriai.policy.placement.backfill import Backfill, ReservedHead
from iriai.policy.placement.pool_plan import PoolHead
from iriai.policy.placement.seats import Seat, Seats

if TYPE_CHECKING:
    from iriai.policy.matching.match import Demand

FEW_MACHINES = 8
"""Machines with newly free resources that are examined one by one; beyond that, the order of all
open ones is used."""
FEW_OPEN = 64
"""Open machines, or machines that match, that are examined one by one."""
FEW_LINES = 6
"""With at most so many, examining each is faster than determining first what may fit."""
COMPARED_MAX = 256
"""Machines in their usual order of which the one is chosen whose owner is away just long enough."""
MASKS_MAX = 64
"""Different free resources in the union of all. With more, the union is computed again only when as
many are gone; until then, some tasks are examined in vain."""


class Placement:
    """Lives as long as the broker; `begin` starts a pass."""

    def __init__(
        self,
        index: MachineIndex,
        queues: AccountQueues,
        heads: ReservedHeads,
        backfill: Backfill,
        preemptible: PreemptibleClaims,
    ) -> None:
        self._pool_heads = heads.by_job
        self.parallel = ParallelPlacement(index, heads, backfill)
        self._preemptible = preemptible
        self._rows = RowPlacement(index, heads, self.parallel, preemptible)
        self.inside = BookingPlacement(index)
        self.row = 0
        """The row of what `place` found last."""
        self.level = 0
        """The level of what a place is sought for, if it takes turns."""
        self._index = index
        self._queues = queues
        self._reserved = heads.by_machine
        self._backfill = backfill
        self._now_s = 0.0
        self._looks = 0
        """Incremented when a kind that fits on no machine may fit again."""
        self._of_machine: dict[str, Mask] = {}
        """Masks of what may fit on each machine with newly free resources."""
        self._barren: Mask = 0
        """Shapes of which every kind was examined and fits on no machine: bins are coarse."""
        self._barren_as_of = 0
        """The value of `_looks` for which these were computed."""
        self._found: tuple[TaskClass, Seats] | None = None
        """The last result: the caller asks for the next task, then again for its machine."""
        self._beside: dict[tuple[object, ...], Mask] = {}
        """Of this pass: what may fit on machines beside heads of pools; many are alike."""
        self._unseen: dict[str, MachineView] = {}
        """Machines that changed since; many passes end without using them."""
        self._ahead: dict[str, MachineView] = {}
        """Machines that were not examined yet, since there are many."""
        self._is_under_way = False
        """Whether a task that could start when the first pass began may still start."""
        self.work = 0
        """Work so far, in examined machines."""
        self.stopped: dict[Account | None, None] = {}
        """Accounts that may run no more in this pass, if all wait in one queue."""
        self._count: dict[Mask, int] = {}
        """The number of machines with each of these masks."""
        self._union: Mask = 0
        self._gone = 0
        """Number of masks in the union that may no longer belong there."""

    @property
    def searches(self) -> int:
        """Return a number that grows whenever a kind that was found to fit nowhere may fit."""
        return self._looks + self._queues.classes.unsettlings

    @property
    def has_booked_room(self) -> bool:
        """Return whether a reservation is open, and tasks wait for one."""
        return bool(self._queues.classes.reserved and self._index.booked.open)

    def begin(self, now_s: float) -> None:
        """Begin a pass: examine machines with newly free resources.

        If the last pass was left before its end, its results are reused except for changes since.
        """
        index = self._index
        self._now_s = now_s
        self._looks += 1
        self.stopped.clear()
        self._beside.clear()
        self.parallel.begin()
        self._found = None
        if self._is_under_way:
            for view in index.news.values():
                self._ahead.pop(view.name, None)
                self._unseen[view.name] = view
            return
        self._is_under_way = True
        self._ahead = dict(index.fresh)

    def scan_ahead(self, stop_at: float) -> bool:
        """Examine machines that were new at the begin; return whether all are done.

        It stops when the work reaches `stop_at`. There is no draw before, so that a task that waits
        for the last machine contends for the first.
        """
        self._index.news.clear()  # it was planned with
        ahead = self._ahead
        while len(ahead) > FEW_MACHINES:
            if self.work >= stop_at:
                return False
            name = next(iter(ahead))
            self._scan(ahead.pop(name))
        self._unseen.update(ahead)
        ahead.clear()
        return True

    def end(self) -> None:
        """End the pass; later changes count as newly free resources."""
        self._is_under_way = False
        self._index.nothing_left()
        if not self._index.open.ranks:
            self._queues.classes.found_all_unplaceable()
        self._of_machine.clear()
        self._count.clear()
        self._unseen.clear()
        self._ahead.clear()
        self._union = self._gone = 0

    def drop(self, view: MachineView) -> None:
        """Forget a machine."""
        self._found = None
        self._unseen.pop(view.name, None)
        self._ahead.pop(view.name, None)
        old = self._of_machine.pop(view.name, None)
        if old is not None:
            self._count_out(old)

    def shrank(self, view: MachineView) -> None:
        """Note that resources were claimed there, or a place was kept."""
        self._found = None
        self._index.changed(view)
        if view.name in self._of_machine:
            self._unseen[view.name] = view

    def grew(self, view: MachineView) -> None:
        """Note that a kept place there is free again."""
        self._found = None
        self._index.grew(view)
        self._looks += 1
        self._unseen[view.name] = view

    def resized(self, view: MachineView, *, has_grown: bool) -> None:
        """Note that running tasks hold more or less there; the index of machines knows it."""
        self._found = None
        self._looks += has_grown
        if has_grown or view.name in self._of_machine:
            self._unseen[view.name] = view

    def replanned(self, head: PoolHead) -> None:
        """Note that a parallel head keeps other places than before."""
        self._found = None
        self._looks += 1
        for view in self._index.rooms.machines_of(head.pool, is_across=head.is_across):
            if view.name in self._of_machine:
                self._unseen[view.name] = view

    def mask(self, lines: int = FEW_LINES + 1) -> Mask:
        """Return the shapes of kinds that may start now; all for a queue of so few `lines`."""
        if self._unseen and lines <= FEW_LINES:
            return -1
        for view in self._unseen.values():
            self._scan(view)
        self._unseen.clear()
        if self._gone and (len(self._count) <= MASKS_MAX or self._gone >= len(self._count)):
            self._gone = self._union = 0
            for mask in self._count:
                self._union |= mask
        classes = self._queues.classes
        union = self._union
        if classes.wide:
            union |= self.parallel.mask(classes.shapes, self._now_s)
        if classes.gangs and self._preemptible.by_machine:
            for kind in classes.gangs:
                if kind.looked != self._looks:
                    union |= kind.bit
        if classes.reserved:
            for kind in classes.reserved:
                if kind.looked != self._looks and kind.is_possible:
                    union |= kind.bit
        if self._barren_as_of == self._looks:
            union &= ~self._barren
        return union | classes.unsettled

    def place(self, kind: TaskClass) -> Seats | None:
        """Return where a task of that kind should start now; None: there is no place.

        A task of one machine on the least loaded relative to speed, then on that with the larger
        free part, then by name.
        """
        if kind.looked == self._looks:
            return None
        is_inside = kind.key.reservation is not None
        is_left = kind.is_wide and not is_inside and self.parallel.is_too_much(kind)
        if is_left or kind.key.capped in self.stopped:
            self._queues.classes.unsettle(kind)  # nothing is said of its room
            return None
        if self._found is not None and self._found[0] is kind:
            return self._found[1]
        found: Seats | None = None
        self.row = 0
        if is_inside:
            found = self.inside.seats(kind, self._now_s)
            self.work += self.inside.work
            self.inside.work = 0
        elif kind.is_wide:
            found = self.parallel.seats(kind, self._now_s)
            self.work += self.parallel.work
            self.parallel.work = 0
        else:
            view = self._among_fresh(kind) if self._is_simple(kind) else self._among_open(kind)
            if view is not None:
                found = (Seat(view.name, 1),)
        if found is None and kind.key.is_gang:
            found = self.in_row(kind)
        if found is not None:
            self._found = (kind, found)
        else:
            kind.looked = self._looks
            self._queues.classes.found_unplaceable(kind)
            self._fits_nowhere(kind)
        return found

    def in_row(self, kind: TaskClass, job: JobId | None = None) -> Seats | None:
        """Return where a gang starts in a row of its own; None: in no row.

        `row` is then that row. `job`: its own, if places are kept for it.
        """
        if kind.is_settled and not (self._index.fresh or self._unseen):
            return None
        found = self._rows.row(kind, self.level, self._now_s, job)
        self.work += self._rows.work
        self._rows.work = 0
        if found is None:
            return None
        self.row = found.row
        return found.seats

    def admits(self, view: MachineView, kind: TaskClass) -> bool:
        """Return whether a task of that kind may start on that machine now."""
        return has_capacity(view, kind, self._now_s) and (
            not (self._reserved or self._pool_heads) or self.head_before(view, kind) is None
        )

    def head_before(self, view: MachineView, kind: TaskClass) -> ReservedHead | PoolHead | None:
        """Return the reserved head that a task of that kind may not pass there, or None."""
        key, capacity = kind.key, view.calendar.capacity
        if not self._backfill.passes_heads:
            heads = self._reserved.values()
            return next((head for head in heads if head.resources.fits_in(capacity)), None) or next(
                (head for head in self._pool_heads.values() if head.is_in(view.pool)), None
            )
        resources = capacity if key.exclusive else key.resources
        for head in self._pool_heads.values():
            if not head.tolerates(view.name, resources, key.stay_s, self._now_s):
                return head
        here = self._reserved.get(view.name)
        if here is None:
            return None
        if not here.tolerates(resources, key.stay_s, self._now_s):
            return here
        if key.tenant:
            ahead = self._queues.entries.get(here.job)
            if ahead is not None and ahead.kind.key.tenant == key.tenant:
                return here
        return None

    def _fits_nowhere(self, kind: TaskClass) -> None:
        """Note that the kind fits on no machine; if its whole shape does not, it is not drawn."""
        looks = self._looks
        for other in self._queues.classes.like(kind):
            if other.looked != looks and other.is_possible:
                return
        if self._barren_as_of != looks:
            self._barren, self._barren_as_of = 0, looks
        self._barren |= kind.bit

    def _waits_for(self, view: MachineView) -> bool:
        """Return whether a head could ever run there."""
        capacity = view.calendar.capacity
        return any(head.resources.fits_in(capacity) for head in self._reserved.values()) or any(
            head.is_in(view.pool) for head in self._pool_heads.values()
        )

    def _is_simple(self, kind: TaskClass) -> bool:
        return kind.is_settled and len(self._index.fresh) <= FEW_MACHINES

    def _among_fresh(self, kind: TaskClass) -> MachineView | None:
        able = [view for view in self._index.fresh.values() if self.admits(view, kind)]
        return self._best(able, kind)

    def _best(self, able: list[MachineView], kind: TaskClass) -> MachineView | None:
        """Return the machine that job and owner rank highest, then the first in usual order."""
        if len(able) <= 1:
            return able[0] if able else None
        demand = kind.demand
        if demand is None or not demand.is_ranked:
            return self._first(able, kind)
        if not self._index.owned:
            return min(able, key=lambda view: (demand.order(view.name), view.rank()))
        highest = min(demand.order(view.name) for view in able)
        return self._first([view for view in able if demand.order(view.name) == highest], kind)

    def _first(self, able: list[MachineView], kind: TaskClass) -> MachineView | None:
        """Return the least loaded, and of owners' machines that are alike the one that fits."""
        if not self._index.owned:
            return min(able, key=MachineView.rank, default=None)
        from iriai.broker.state.owned_machines import just_enough

        return just_enough(able, kind.key.stay_s, self._now_s)

    def _among_open(self, kind: TaskClass) -> MachineView | None:
        if kind.demand is not None:
            return self._among_matching(kind, kind.demand)
        barring = self._barring(kind) if self._pool_heads else None
        if barring and any(len(free) >= len(self._index.views) for free in barring):
            return None
        found: list[MachineView] = []
        for view in self._index.open.with_capacity(kind.key.resources):
            self.work += 1
            if barring and any(view.name in free for free in barring):
                continue
            if self.admits(view, kind):
                if not self._index.owned:
                    return view
                found.append(view)
                if len(found) == COMPARED_MAX:
                    break
        return self._first(found, kind) if found else None

    def _barring(self, kind: TaskClass) -> list[dict[str, Resources]]:
        """Return the machines of each parallel head that such a task delays on all of them."""
        key, now_s = kind.key, self._now_s
        heads = self._pool_heads.values()
        return [each.free for each in heads if not each.allows(key.resources, 1, key.stay_s, now_s)]

    def _among_matching(self, kind: TaskClass, demand: Demand) -> MachineView | None:
        """Return the best by rank among the machines that match, then in the usual order."""
        views, are_many = self._index.views, len(self._index.open.ranks) > FEW_OPEN
        if demand.is_ranked and are_many:
            for names in demand.tiers():
                able = list(self._able(kind, (views[name] for name in names)))
                if able:
                    return self._first(able, kind)
            return None
        if demand.is_ranked:
            able = list(self._able(kind, self._index.open.with_capacity(kind.key.resources)))
            return self._best(able, kind)
        if are_many and demand.count() <= FEW_OPEN:
            able = list(self._able(kind, (views[name] for name in demand.names())))
            return self._first(able, kind)
        among = self._able(kind, self._index.open.with_capacity(kind.key.resources))
        if not self._index.owned:
            return next(among, None)
        return self._first(list(islice(among, COMPARED_MAX)), kind)

    def _able(self, kind: TaskClass, views: Iterable[MachineView]) -> Iterator[MachineView]:
        for view in views:
            self.work += 1
            if self.admits(view, kind):
                yield view

    def _scan(self, view: MachineView) -> None:
        """Update what may fit on a machine with newly free resources."""
        self.work += 1
        old = self._of_machine.get(view.name)
        mask = self._of_machine[view.name] = self._mask_of(view)
        if mask == old:
            return
        self._count[mask] = self._count.get(mask, 0) + 1
        self._union |= mask
        if old is not None:
            self._count_out(old)

    def _count_out(self, mask: Mask) -> None:
        self._count[mask] -= 1
        if not self._count[mask]:
            del self._count[mask]
            self._gone += 1

    def _mask_of(self, view: MachineView) -> Mask:
        if not view.is_open:
            return 0
        if not self._backfill.passes_heads and self._waits_for(view):
            return 0
        shapes = self._queues.classes.shapes
        together = -1 if len(view.calendar) else 0
        head = self._reserved.get(view.name)
        if self._pool_heads:
            return self._mask_beside(view, together)
        if head is None:
            return shapes.fitting_in(view.calendar.free, together)
        room = bins_of(view.calendar.free, None, together)
        spare = bins_of(head.spare, None, together)
        mask = shapes.fitting(SizeBins(*map(min, room, spare)))
        if head.start_s > self._now_s:
            until_s = int(head.start_s - self._now_s) + 1
            mask |= shapes.fitting(room._replace(stay=bin_of(until_s)))
        return mask

    def _mask_beside(self, view: MachineView, together: int) -> Mask:
        """Return what may fit on a machine of which heads of pools may need something."""
        heads = [
            (head.start_s, head.free[view.name], head.spare)
            for head in self._pool_heads.values()
            if view.name in head.free
        ]
        here = self._reserved.get(view.name)
        if here is not None:
            heads.append((here.start_s, here.spare, here.spare))
        key = (view.calendar.free, together, tuple(heads))
        known = self._beside.get(key)
        if known is None:
            known = self._beside[key] = self._mask_of_room(*key)
        return known

    def _mask_of_room(
        self, free: Resources, together: int, heads: tuple[tuple[float, Resources, Resources], ...]
    ) -> Mask:
        shapes = self._queues.classes.shapes
        room = bins_of(free, None, together)
        mask = -1
        for start_s, left, spare in heads:
            bins = (bins_of(each, None, together) for each in (left, spare))
            beside = shapes.fitting(SizeBins(*map(min, room, *bins)))
            if start_s > self._now_s:
                until_s = int(start_s - self._now_s) + 1
                beside |= shapes.fitting(room._replace(stay=bin_of(until_s)))
            mask &= beside
        return mask if heads else shapes.fitting(room)

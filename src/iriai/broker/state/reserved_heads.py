"""Reserved heads: drawn tasks that did not fit, each with resources kept for it.

A head starts as soon as it fits, and moves to where it can start earlier; its promise is kept or
improved. At most one stands for each disjoint set of machines.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from iriai.broker.machines.beside_bookings import is_beside
from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.machines.pool_rooms import PoolOf
from iriai.broker.machines.pool_slots import PoolSlots
from iriai.broker.queue.entries import Queue, QueuedJob, TaskClass
from iriai.broker.state.suspended_claims import SuspendedClaims
from iriai.config.reader import Configuration
from iriai.model.ids import JobId
from iriai.model.ranks import ONE
from iriai.model.resources import Resources
from iriai.policy.placement.backfill import ReservedHead
from iriai.policy.placement.calendar import OPEN_END_S, Slot
from iriai.policy.placement.policy_api import PlannedStart
from iriai.policy.placement.pool_plan import PoolHead, plan_head
from iriai.protocol.messages.scheduling import Promise, Want

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import BookedSpan

PROMISE_STEP_S = 1.0
"""The improvement from which a promise is sent again; less is noise to a person."""
LOOKS_MAX = 16
"""Machines whose calendars are searched for the earliest place, in the order of their first ends.
With more machines than that, a head may be promised a later start than the earliest; it moves when
another machine gets room for it."""
HELD_MAX = 256
"""Different sets of held resources that are remembered; then all are forgotten. There are a
handful, unless all machines differ."""


NONE_BOOKED: Mapping[str, BookedSpan] = MappingProxyType({})


class ReservedHeads:
    """Lives as long as the broker."""

    def __init__(
        self,
        index: MachineIndex,
        suspended: SuspendedClaims,
        slots: PoolSlots,
        configuration: Configuration,
    ) -> None:
        """No place is kept on a machine where a task of `suspended` waits to go on.

        The configuration says by how much later than planned starts are promised.
        """
        self._slack_s = configuration.reservations.promise_slack_s
        self.by_machine: dict[str, ReservedHead] = {}
        self.by_job: dict[JobId, PoolHead] = {}
        """Heads of parallel tasks, whose places are on the machines of a pool."""
        self.aside: list[ReservedHead | PoolHead] = []
        """Heads of lower levels than that which a pass serves: it comes to them later."""
        self.promised: dict[JobId, float] = {}
        """The starts that an earlier broker promised to parallel tasks; the next pass keeps places
        for them again."""
        self.changes = 0
        """Incremented when a place could be kept for a kind for which none could before."""
        self._promises: list[Promise] = []
        self._index = index
        self._suspended = suspended
        self._slots = slots
        self._capacities: tuple[Resources, ...] = ()
        """Keys of the machines that hold a head and take tasks."""
        self._held = 0
        self._held_as_of = -1
        """The value of `changes` for which these were computed."""
        self._numbers: dict[tuple[Resources, ...], int] = {}
        self._number = 0

    def restore(self, want: Want, machine: str, start_s: float) -> None:
        """Keep the place of an earlier broker's reserved head, unless another head has it.

        Those of a parallel task are on machines that may not have reported yet.
        """
        if want.shape != ONE:
            if want.job not in self.by_job and want.reservation is None:
                self.promised[want.job] = start_s
        elif machine not in self.by_machine and want.reservation is None:
            resources = want.resources
            self.keep(ReservedHead(want.job, machine, resources, start_s, resources, start_s))

    def planned(self) -> list[PlannedStart]:
        """Return the starts of all heads."""
        planned = []
        for head in (*self.by_machine.values(), *self.by_job.values(), *self.aside):
            if isinstance(head, PoolHead):
                pool = "" if head.is_across else head.pool
                planned.append(PlannedStart(head.job, "", head.start_s, pool))
            else:
                planned.append(PlannedStart(head.job, head.machine, head.start_s))
        return planned

    def withdraw_absent(self, waiting: Container[JobId]) -> None:
        """Free the places of earlier heads whose jobs are not among the waiting ones.

        Passes do so as well; before the first one, another job's promise may claim such a place.
        """
        for head in [each for each in self.by_machine.values() if each.job not in waiting]:
            del self.by_machine[head.machine]
            self.changes += 1
        for job in [each for each in self.by_job if each not in waiting]:
            del self.by_job[job]
            self.changes += 1
        for job in [each for each in self.promised if each not in waiting]:
            del self.promised[job]

    def drain_promises(self) -> list[Promise]:
        """Return the messages to homes since the last call, and forget them."""
        promises, self._promises = self._promises, []
        return promises

    def may_reserve(self, kind: TaskClass, job: JobId) -> bool:
        """Return whether a place may be kept for a job of that kind: no head holds its machines."""
        if not kind.may_be_head:
            kind.held = self.held
            return False
        if kind.is_wide:
            if kind.unreservable == self.changes or job in self.by_job:
                return False
            return bool(self._pools_for(kind))
        if kind.is_choosy:
            return kind.unreservable != self.changes and not self._is_held(kind)
        return self._may_keep(kind, self.held)

    def may_reserve_first(self, queue: Queue, held: int) -> bool:
        """Return whether a place may be kept for a queue's first task; `held` is that of now."""
        first = queue.first
        if first is None or queue.held == held:
            return False
        kind = first.kind
        if kind.is_choosy or kind.is_wide or not kind.may_be_head:
            may_reserve = self.may_reserve(kind, first.first.job)
        else:
            may_reserve = self._may_keep(kind, held)
        queue.held = kind.held
        return may_reserve

    def _may_keep(self, kind: TaskClass, held: int) -> bool:
        """Return whether a place may be kept for a kind that may run on all machines."""
        if kind.held == held or kind.unreservable == self.changes:
            return False
        needed = kind.key.resources
        for capacity in self._capacities:
            if needed.fits_in(capacity):
                kind.held = held
                return False
        return True

    @property
    def held(self) -> int:
        """Return a number for the resources that heads hold.

        Equal numbers give equal `may_reserve`: if a head starts and another takes an equal place,
        no result has to be computed again.
        """
        if self._held_as_of != self.changes:
            self._held_as_of = self.changes
            self._refresh()
        return self._held

    def reserve(self, entry: QueuedJob, now_s: float) -> MachineView | None:
        """Keep the earliest place for an entry that does not fit; None: no machine takes it."""
        found = self.earliest(entry.kind, now_s)
        if found is None:
            entry.kind.unreservable = self.changes
            return None
        view, slot = found
        want = entry.want
        kept = view.calendar.capacity if want.exclusive else want.resources
        head = ReservedHead(want.job, view.name, kept, slot.start_s, slot.spare)
        head.stay_s = entry.kind.planned_s
        self.keep(head)
        self._promise_plan(head, now_s)
        return view

    def reserve_pool(self, entry: QueuedJob, now_s: float) -> PoolHead | None:
        """Keep places for a parallel task that does not fit; None: no pool takes it."""
        best: PoolHead | None = None
        for pool in self._pools_for(entry.kind):
            head = self.plan_in(pool, entry, now_s, is_new=True)
            if head is not None and (best is None or head.start_s < best.start_s):
                best = head
        if best is None:
            entry.kind.unreservable = self.changes
            return None
        best.told_start_s = self.promised.pop(best.job, None)
        self.by_job[best.job] = best
        self.changes += 1
        self.promise_pool(best, now_s)
        return best

    def plan_in(
        self,
        pool: PoolOf,
        entry: QueuedJob,
        now_s: float,
        *,
        is_new: bool = False,
        booked: Mapping[str, BookedSpan] = NONE_BOOKED,
    ) -> PoolHead | None:
        """Return the head of a parallel task in a pool, at its earliest start there.

        A new one has no machine on which a suspended task waits for its cpus. `booked` are bookings
        that may come, by machine.
        """
        kind = entry.kind
        calendars = {
            name: view.calendar.with_booking(booked[name]) if name in booked else view.calendar
            for name, view in pool.machines.items()
            if view.is_available
            and name not in self.by_machine
            and not (is_new and self._suspended.is_awaited_on(name))
            and (not kind.is_choosy or kind.may_run_on(name))
            and kind.key.tenant not in view.tenants
        }
        key, job = kind.key, entry.want.job
        head = plan_head(
            job,
            key.resources,
            key.shape,
            calendars,
            now_s,
            is_exclusive=key.exclusive,
            stay_s=kind.planned_s,
        )
        if head is None or (is_new and head.start_s <= now_s and self._has_full(calendars)):
            return None  # it waits for a full pool alone
        head.pool, head.is_across = pool.name, kind.key.across_pools
        return head

    def _has_full(self, machines: Iterable[str]) -> bool:
        return bool(self._slots.bounds) and any(
            self._index.views[name].is_pool_full for name in machines
        )

    def promise_pool(self, head: PoolHead, now_s: float) -> None:
        """Send the promise of a parallel task to its home, unless the home knows it."""
        start_s: float | None = head.start_s
        views = self._index.rooms.machines_of(head.pool, is_across=head.is_across)
        if head.start_s > now_s + OPEN_END_S / 2 or self._may_fill(views, head.start_s):
            start_s = None
        told = head.told_start_s
        start_s = self._to_tell(start_s, told)
        if start_s == told or (start_s and told and abs(start_s - told) < PROMISE_STEP_S):
            return
        head.told_start_s = start_s
        in_s = None if start_s is None else max(0.0, start_s - now_s)
        self._promises.append(Promise(head.job, "", in_s, "" if head.is_across else head.pool))

    def give_up_pool(self, head: PoolHead) -> None:
        """Take back what was promised to a parallel task that waits on, and starts nowhere now."""
        if head.told_start_s is not None:
            self._promises.append(Promise(head.job, "", None))

    def take_back(self, job: JobId) -> None:
        """Take back what an earlier broker promised to a parallel task."""
        if self.promised.pop(job, None) is not None:
            self._promises.append(Promise(job, "", None))

    def _pools_for(self, kind: TaskClass) -> list[PoolOf]:
        """Return the pools that could hold a parallel task, and have no head."""
        key, rooms = kind.key, self._index.rooms
        heads = self.by_job.values()
        held = {
            self._index.views[name].pool for name in self.by_machine if name in self._index.views
        }
        return [
            pool
            for pool in rooms.pools(is_across=key.across_pools)
            if not any(key.across_pools or head.is_in(pool.name) for head in heads)
            and not (held if key.across_pools else pool.name in held)
            and rooms.could_hold(pool, key.resources, key.shape)
        ]

    def is_kept_in(self, pool: str) -> bool:
        """Return whether places in a pool are kept for a parallel head."""
        return any(head.is_in(pool) for head in self.by_job.values())

    def earliest(self, kind: TaskClass, now_s: float) -> tuple[MachineView, Slot] | None:
        """Return the machine without a head where a task of that kind can start first, and when.

        No task starts before the first end of a machine on which it does not fit now, so the search
        stops at the first such end that is later than the result.
        """
        best: tuple[float, str, Slot, MachineView] | None = None
        looks = 0
        for end_s, view in self._index.by_first_end(kind.key.resources):
            if not view.is_available or view.name in self.by_machine:
                continue
            if self.is_kept_in(view.pool) or self._suspended.is_awaited_on(view.name):
                continue
            if kind.is_choosy and not kind.may_run_on(view.name):
                continue
            if kind.key.tenant in view.tenants:
                continue  # it waits for its own account's task there
            if looks == LOOKS_MAX or (best is not None and end_s > best[0]):
                break
            looks += 1
            before_s = inf if best is None else best[0]
            slot = slot_on(kind, view, now_s, before_s)
            if slot is not None and (best is None or (slot.start_s, view.name) < best[:2]):
                best = (slot.start_s, view.name, slot, view)
        return None if best is None else (best[3], best[2])

    def plan(self, head: ReservedHead, view: MachineView, now_s: float) -> bool:
        """Plan a head again whose machine changed; return whether it leaves more than before."""
        slot = view.calendar.earliest(head.resources, _open_from_s(view, now_s), stay_s=head.stay_s)
        assert slot is not None, "a reserved head fits on its machine"
        is_wider = slot.start_s > head.start_s or not slot.spare.fits_in(head.spare)
        head.start_s, head.spare = slot
        self._promise_plan(head, now_s)
        return is_wider

    def move(self, head: ReservedHead, view: MachineView, kind: TaskClass, now_s: float) -> None:
        """Keep its place on another machine, which could hold it and holds no other head.

        The old place is free; the caller must notify placement.
        """
        del self.by_machine[head.machine]
        head.machine, head.resources = view.name, kept_for(kind, view)
        head.stay_s = kind.planned_s
        self.keep(head)
        self.plan(head, view, now_s)

    def give_up(self, machine: str, now_s: float) -> bool:
        """Forget a machine; return whether a place was kept there."""
        head = self.by_machine.pop(machine, None)
        if head is not None:
            self.promise(head, None, now_s)
        return head is not None

    def lost(self, view: MachineView) -> None:
        """Note that a machine is gone, or of another pool: parallel heads are planned again."""
        for head in self.by_job.values():
            head.is_stale |= view.name in head.free

    def promise(self, head: ReservedHead, start_s: float | None, now_s: float) -> None:
        """Send the promise to its home, unless the home knows it."""
        told = head.told_start_s
        start_s = self._to_tell(start_s, told)
        if start_s == told or (start_s and told and abs(start_s - told) < PROMISE_STEP_S):
            return
        head.told_start_s = start_s
        in_s = None if start_s is None else max(0.0, start_s - now_s)
        self._promises.append(Promise(head.job, head.machine, in_s))

    def _to_tell(self, start_s: float | None, told_s: float | None) -> float | None:
        """Return what is promised of a planned start; what was told stands while that is true."""
        if start_s is None or not self._slack_s:
            return start_s
        latest_s = start_s + self._slack_s
        is_kept = told_s is not None and start_s - PROMISE_STEP_S < told_s <= latest_s
        return told_s if is_kept else latest_s

    def _is_held(self, kind: TaskClass) -> bool:
        """Return whether a head holds a machine that the kind may run on."""
        return any(view.is_available and could_hold(kind, view) for view in self._held_views())

    def _held_views(self) -> Iterator[MachineView]:
        """Yield the machines on which heads have places."""
        views = self._index.views
        for name in self.by_machine:
            if name in views:
                yield views[name]
        for head in self.by_job.values():
            yield from self._index.rooms.machines_of(head.pool, is_across=head.is_across)

    def _refresh(self) -> None:
        held: dict[Resources, None] = {}
        for view in self._held_views():
            if view.is_available:
                held[view.calendar.capacity] = None
        self._capacities = tuple(held)
        if self._capacities not in self._numbers:
            if len(self._numbers) == HELD_MAX:
                self._numbers.clear()
            self._number += 1
            self._numbers[self._capacities] = self._number
        self._held = self._numbers[self._capacities]

    def keep(self, head: ReservedHead) -> None:
        """Keep a place on its machine, which has no other head; the caller notifies placement."""
        self.by_machine[head.machine] = head
        self.changes += 1

    def check(self, waiting: Mapping[JobId, QueuedJob]) -> None:
        """Raise if a place is kept for what does not wait, or may have none, or does not fit."""
        for machine, head in self.by_machine.items():
            assert machine == head.machine
            assert head.job in waiting, f"a place is kept for {head.job}, which does not wait"
            assert waiting[head.job].want.reservation is None, f"{head.job} runs in a booking"
            view = self._index.views.get(machine)
            if view is not None:
                assert head.resources.fits_in(view.calendar.capacity), f"{head.job}"
        for job in self.by_job:
            entry = waiting.get(job)
            assert entry is None or entry.want.reservation is None, f"{job} runs in bookings"

    def _promise_plan(self, head: ReservedHead, now_s: float) -> None:
        is_open = head.start_s > now_s + OPEN_END_S / 2  # it rests on an open claim
        view = self._index.views.get(head.machine) if self._slots.bounds else None
        if view is not None and not is_open:
            waits = head.told_start_s is None and _waits_for_pool(view, head.start_s, now_s)
            is_open = waits or self._may_fill((view,), head.start_s)
        self.promise(head, None if is_open else head.start_s, now_s)

    def _may_fill(self, views: Iterable[MachineView], start_s: float) -> bool:
        """Return whether others may fill the pool until then: bookings are before it, not tasks."""
        return bool(self._slots.bounds) and any(
            booked.start_s < start_s
            for view in views
            if view.calendar.bookings and view.pool in self._slots.bounds
            for booked in view.calendar.bookings
        )


def slot_on(kind: TaskClass, view: MachineView, now_s: float, before_s: float = inf) -> Slot | None:
    """Return when a task of that kind can start first on a machine, and what it leaves.

    None: never, not before `before_s`, or as soon as the full pool of the machine has room: the
    first task that ends there lets one start, and not one on each machine.
    """
    need, stay_s = kept_for(kind, view), kind.planned_s
    slot = view.calendar.earliest(need, now_s, before_s, stay_s)
    if slot is None or not view.is_pool_full:
        return slot
    if slot.start_s <= now_s or view.closed_until_s == inf:
        return None
    return view.calendar.earliest(need, _open_from_s(view, now_s), before_s, stay_s)


def _waits_for_pool(view: MachineView, start_s: float, now_s: float) -> bool:
    """Return whether what would start there then waits for a place in its full pool."""
    return view.is_pool_full and (start_s <= now_s or view.closed_until_s == inf)


def _open_from_s(view: MachineView, now_s: float) -> float:
    """Return from when on the pool of a machine may run one more task, as far as known."""
    if view.closed_until_s is None or view.closed_until_s == inf:
        return now_s
    return max(now_s, view.closed_until_s)


def could_hold(kind: TaskClass, view: MachineView) -> bool:
    """Return whether a task of that kind could run on the machine if it were empty."""
    if not kind.key.resources.fits_in(view.calendar.capacity):
        return False
    return kind.may_run_on(view.name)


def has_capacity(view: MachineView, kind: TaskClass, now_s: float) -> bool:
    """Return whether a task, or a rank, could start there if no place were kept for another."""
    key = kind.key
    return (
        key.resources.fits_in(view.calendar.free)  # first: mostly it does not
        and view.is_open
        and not (key.exclusive and len(view.calendar))
        and key.tenant not in view.tenants
        and (not kind.is_choosy or kind.may_run_on(view.name))
        and (
            not view.calendar.bookings or is_beside(view.calendar, key, kept_for(kind, view), now_s)
        )
    )


def kept_for(kind: TaskClass, view: MachineView, ranks: int = 1) -> Resources:
    """Return what ranks of a task of that kind take, or have kept for them, on a machine."""
    if kind.key.exclusive:
        return view.calendar.capacity
    return kind.key.resources if ranks == 1 else kind.key.resources.times(ranks)

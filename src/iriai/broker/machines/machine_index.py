"""All machines of a broker, indexed for a pass: available ones, changed ones, and their kinds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from math import inf

from iriai.broker.machines.booked_machines import BookedMachines
from iriai.broker.machines.machine_view import MachineView, Rank
from iriai.broker.machines.pool_rooms import PoolRooms
from iriai.broker.queue.indices import BlockedSortedList
from iriai.model.resources import Resources

LACKING_MAX = 16
"""Needs that are known to fit nowhere. More: each machine that changes is compared with more of
them; fewer: more searches in vain."""
SORTED_PART = 8
"""If more than this part of the machines of a kind has changed, it is faster to sort all of it."""


class BlockMaximum:
    """The most that any machine of a block may have free of each resource."""

    __slots__ = ("cpus", "gpus", "memory")

    def __init__(self) -> None:
        self.cpus = self.memory = self.gpus = 0

    def include(self, view: MachineView) -> None:
        """Raise the maxima to what a machine of the block has free."""
        free = view.calendar.free
        if free.cpus > self.cpus:
            self.cpus = free.cpus
        if free.memory_bytes > self.memory:
            self.memory = free.memory_bytes
        if free.gpus > self.gpus:
            self.gpus = free.gpus


class AvailableMachines:
    """Available machines by rank; a machine that changed is ranked again."""

    def __init__(self) -> None:
        self._order: BlockedSortedList[Rank, MachineView, BlockMaximum] = BlockedSortedList(
            BlockMaximum
        )
        self.ranks: dict[str, Rank] = {}
        """The rank under which each is entered; changed by methods of this class only."""
        self._lacking: list[Resources] = []
        """The smallest needs that fit on none of them; nothing larger fits either."""

    def place(self, view: MachineView) -> None:
        """Enter a machine by its present rank where it is open, else drop it."""
        rank = view.open_rank()
        if rank is not None and self._lacking:
            free = view.calendar.free
            self._lacking = [need for need in self._lacking if not need.fits_in(free)]
        if len(self.ranks) == 1 and rank is not None and view.name in self.ranks:
            self.ranks[view.name] = rank
            self._order.move_only(rank)
        elif self.ranks.get(view.name) != rank:
            self.drop(view.name)
            if rank is not None:
                self.ranks[view.name] = rank
                self._order.add(rank, view)
        elif rank is not None:
            self._order.grew(rank, view)

    def drop(self, machine: str) -> None:
        """Drop a machine that is not open any more."""
        rank = self.ranks.pop(machine, None)
        if rank is not None:
            self._order.remove(rank)

    def with_capacity(self, need: Resources) -> Iterator[MachineView]:
        """Yield machines with that much free, in order; none may change between two steps."""
        for known in self._lacking:
            if known.fits_in(need):
                return
        is_anywhere = False
        cpus, memory_bytes, gpus = need.cpus, need.memory_bytes, need.gpus
        for block in self._order.blocks:
            most = block.summary
            if cpus > most.cpus or memory_bytes > most.memory or gpus > most.gpus:
                continue
            is_there = False
            for view in block.items:
                free = view.calendar.free
                if cpus <= free.cpus and need.fits_in(free):
                    is_there = is_anywhere = True
                    yield view
            if not is_there:
                block.summarize()
        if not is_anywhere:
            self._lack(need)

    def _lack(self, need: Resources) -> None:
        """Note a need that fits on no machine, in place of those at least as large."""
        smaller = [known for known in self._lacking if not need.fits_in(known)]
        self._lacking = [*smaller[-LACKING_MAX + 1 :], need]


End = tuple[float, str]
"""The end of a machine's first claim, and its name."""


class MachineIndex:
    """All machines of a broker, maintained with each change of one."""

    def __init__(self) -> None:
        self.views: dict[str, MachineView] = {}
        self.open = AvailableMachines()
        self.fresh: dict[str, MachineView] = {}
        """Machines with room that is new since a pass ended."""
        self.news: dict[str, MachineView] = {}
        """Those of `fresh` whose room is new since the last pass began."""
        self.owned: dict[str, None] = {}
        """Machines whose owners are expected back at some time."""
        self.booked = BookedMachines()
        self.total_cpus = 0
        self._kinds: dict[Resources, list[End]] = {}
        """By capacity; first ends in order."""
        self._ends: dict[str, float] = {}
        """The first end under which each machine is entered."""
        self._stale_ends: dict[Resources, dict[str, MachineView]] = {}
        """Machines, by capacity, whose first end may be another now; few starts ask for ends."""
        self._rooms: PoolRooms | None = None

    @property
    def rooms(self) -> PoolRooms:
        """Return what has room for ranks; kept from the first question on."""
        if self._rooms is None:
            self._rooms = PoolRooms(self.views)
        return self._rooms

    def put(self, view: MachineView) -> None:
        """Add a machine that is new, or known again."""
        old = self.views.get(view.name)
        if old is not None:
            self._leave_kind(old)
            if view.idle_until_s == inf:
                self.owned.pop(view.name, None)
            if old.calendar.bookings:
                self.booked.drop(old)
            if self._rooms is not None:
                self._rooms.dropped(old)
        if view.calendar.bookings:
            self.booked.put(view)
        capacity = view.calendar.capacity
        self.views[view.name] = view
        self.total_cpus += capacity.cpus
        end_s = self._ends[view.name] = view.calendar.first_end_s
        insort(self._kinds.setdefault(capacity, []), (end_s, view.name))
        self.grew(view)

    def expect_owner(self, view: MachineView, idle_until_s: float) -> None:
        """Note until when the owner of a machine is expected to stay away (steady clock)."""
        self.owned[view.name] = None
        view.idle_until_s = idle_until_s

    def drop(self, view: MachineView) -> None:
        """Remove a machine."""
        self._leave_kind(view)
        self.owned.pop(view.name, None)
        del self.views[view.name], self._ends[view.name]
        self.fresh.pop(view.name, None)
        self.news.pop(view.name, None)
        if view.calendar.bookings:
            self.booked.drop(view)
        if self._rooms is not None:
            self._rooms.dropped(view)

    def capacities(self) -> list[Resources]:
        """Return each capacity that some machine has, once."""
        return list(self._kinds)

    def changed(self, view: MachineView) -> None:
        """Update a machine whose free resources or availability changed."""
        self.open.place(view)
        self._stale_ends.setdefault(view.calendar.capacity, {})[view.name] = view
        if self._rooms is not None:
            self._rooms.changed(view)

    def grew(self, view: MachineView) -> None:
        """Update a machine that may hold what it could not hold before."""
        self.changed(view)
        self.fresh[view.name] = self.news[view.name] = view

    def nothing_left(self) -> None:
        """Count only later room as new: no waiting task could start."""
        self.fresh.clear()
        self.news.clear()

    def has_kind_for(self, resources: Resources) -> bool:
        """Return whether some machine could hold `resources` if nothing ran there."""
        return any(resources.fits_in(capacity) for capacity in self._kinds)

    def by_first_end(self, resources: Resources) -> Iterator[tuple[float, MachineView]]:
        """Yield machines that could ever hold `resources`, in the order of their first ends."""
        able = [self._enter_ends(each) for each in self._kinds if resources.fits_in(each)]
        for end_s, name in able[0] if len(able) == 1 else merge(*able):
            yield end_s, self.views[name]

    def _enter_ends(self, capacity: Resources) -> list[End]:
        """Enter the machines of a kind that changed by their first ends; return all of the kind."""
        ends, stale = self._kinds[capacity], self._stale_ends.pop(capacity, {})
        if len(stale) > len(ends) / SORTED_PART:
            ends[:] = sorted((self.views[name].calendar.first_end_s, name) for _, name in ends)
            self._ends.update((name, end_s) for end_s, name in ends)
            return ends
        for name, view in stale.items():
            end_s, known_s = view.calendar.first_end_s, self._ends[name]
            if end_s != known_s:
                del ends[bisect_left(ends, (known_s, name))]
                insort(ends, (end_s, name))
                self._ends[name] = end_s
        return ends

    def check(self) -> None:
        """Raise if an index differs from the machines."""
        for capacity in self._kinds:
            self._enter_ends(capacity)
        for view in self.views.values():
            view.check()
            is_owned = view.idle_until_s < inf
            assert is_owned <= (view.name in self.owned), f"the owner of {view.name}"
            assert (view.name in self.open.ranks) == view.is_open, f"whether {view.name} is open"
            assert self._ends[view.name] == view.calendar.first_end_s, f"first end of {view.name}"
        self.booked.check(self.views.values())
        assert sum(map(len, self._kinds.values())) == len(self.views)
        assert self._stale_ends.keys() <= self._kinds.keys(), "ends of machines that are gone"
        cpus = sum(view.calendar.capacity.cpus for view in self.views.values())
        assert self.total_cpus == cpus, f"{self.total_cpus} cpus counted, {cpus} there"

    def _leave_kind(self, view: MachineView) -> None:
        self.open.drop(view.name)
        capacity = view.calendar.capacity
        self._stale_ends.get(capacity, {}).pop(view.name, None)
        ends = self._kinds[capacity]
        del ends[bisect_left(ends, (self._ends[view.name], view.name))]
        if not ends:
            del self._kinds[capacity]
            self._stale_ends.pop(capacity, None)
        self.total_cpus -= capacity.cpus

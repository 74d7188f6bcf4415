"""Machines where something could start, in the order in which they are chosen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from iriai.broker.pool.machine_view import MachineView, Rank
from iriai.model.resources import Resources

BLOCK_MACHINES_MAX = 64
"""A block of twice as many is split."""
LACKING_MAX = 16
"""Needs that are known to fit nowhere. More: each machine that changes is compared with more of
them; fewer: one that is new is sought on more machines in vain."""


class _Block:
    """Neighbours in the order, and the most that any of them may have free."""

    __slots__ = ("cpus", "disk", "gpus", "memory", "ranks", "views")

    def __init__(self, ranks: list[Rank], views: list[MachineView]) -> None:
        self.ranks = ranks
        self.views = views
        self.look()

    def look(self) -> None:
        """See what is free; what has left or shrunk since then counts until the next look."""
        self.cpus = self.memory = self.gpus = self.disk = 0
        for view in self.views:
            self.widen(view.calendar.free)

    def hold(self, free: Resources) -> None:
        """Its only machine has so much free."""
        self.cpus, self.memory = free.cpus, free.memory_bytes
        self.gpus, self.disk = free.gpus, free.disk_bytes

    def widen(self, free: Resources) -> None:
        """A machine with so much free is there."""
        self.cpus = max(self.cpus, free.cpus)
        self.memory = max(self.memory, free.memory_bytes)
        self.gpus = max(self.gpus, free.gpus)
        self.disk = max(self.disk, free.disk_bytes)

    def may_hold(self, need: Resources) -> bool:
        """Whether `need` may fit on one of them."""
        return (
            need.cpus <= self.cpus
            and need.memory_bytes <= self.memory
            and need.gpus <= self.gpus
            and need.disk_bytes <= self.disk
        )


class AvailableMachines:
    """By rank; see the module. A machine that changed is put in its place again."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._lasts: list[Rank] = []
        """The last rank of each block."""
        self._ranks: dict[str, Rank] = {}
        """Under which each stands there."""
        self._lacking: list[Resources] = []
        """What fits on none of them, the smallest such needs; so nothing larger does either."""

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, machine: str) -> bool:
        return machine in self._ranks

    def place(self, view: MachineView) -> None:
        """A machine is new or has changed: in its place where it is open, else out."""
        rank = view.rank() if view.is_open else None
        if rank is not None and self._lacking:
            free = view.calendar.free
            self._lacking = [need for need in self._lacking if not need.fits_in(free)]
        if len(self._ranks) == 1 and rank is not None and view.name in self._ranks:
            block = self._blocks[0]  # alone, there is no order to keep
            self._ranks[view.name] = block.ranks[0] = self._lasts[0] = rank
            block.hold(view.calendar.free)
        elif self._ranks.get(view.name) != rank:
            self.drop(view.name)
            if rank is not None:
                self._add(rank, view)
        elif rank is not None:
            self._blocks[bisect_left(self._lasts, rank)].widen(view.calendar.free)

    def drop(self, machine: str) -> None:
        """It is not open any more."""
        rank = self._ranks.pop(machine, None)
        if rank is None:
            return
        number = bisect_left(self._lasts, rank)
        block = self._blocks[number]
        position = bisect_left(block.ranks, rank)
        del block.ranks[position]
        del block.views[position]
        if block.ranks:
            self._lasts[number] = block.ranks[-1]
        else:
            del self._blocks[number]
            del self._lasts[number]

    def with_room(self, need: Resources) -> Iterator[MachineView]:
        """Those with that much free, in order; nothing may change while it is asked for more."""
        for known in self._lacking:
            if known.fits_in(need):
                return
        is_anywhere = False
        for block in self._blocks:
            if not block.may_hold(need):
                continue
            is_there = False
            for view in block.views:
                if need.fits_in(view.calendar.free):
                    is_there = is_anywhere = True
                    yield view
            if not is_there:
                block.look()
        if not is_anywhere:
            self._lack(need)

    def _lack(self, need: Resources) -> None:
        """It fits on none; what is at least as large need not be kept beside it."""
        smaller = [known for known in self._lacking if not need.fits_in(known)]
        self._lacking = [*smaller[-LACKING_MAX + 1 :], need]

    def _add(self, rank: Rank, view: MachineView) -> None:
        self._ranks[view.name] = rank
        if not self._blocks:
            self._blocks.append(_Block([rank], [view]))
            self._lasts.append(rank)
            return
        number = min(bisect_left(self._lasts, rank), len(self._lasts) - 1)
        block = self._blocks[number]
        position = bisect_left(block.ranks, rank)
        block.ranks.insert(position, rank)
        block.views.insert(position, view)
        block.widen(view.calendar.free)
        self._lasts[number] = block.ranks[-1]
        if len(block.ranks) >= 2 * BLOCK_MACHINES_MAX:
            self._split(number)

    def _split(self, number: int) -> None:
        block = self._blocks[number]
        later = _Block(block.ranks[BLOCK_MACHINES_MAX:], block.views[BLOCK_MACHINES_MAX:])
        del block.ranks[BLOCK_MACHINES_MAX:]
        del block.views[BLOCK_MACHINES_MAX:]
        block.look()
        self._blocks.insert(number + 1, later)
        self._lasts[number : number + 1] = [block.ranks[-1], later.ranks[-1]]

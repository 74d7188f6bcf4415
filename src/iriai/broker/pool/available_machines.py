"""Machines where something could start, in the order in which they are chosen."""

from __future__ import annotations

from collections.abc import Iterator

from iriai.broker.pool.machine_view import MachineView, Rank
from iriai.broker.queue.sorted_blocks import BlockedSortedList
from iriai.model.resources import Resources

LACKING_MAX = 16
"""Needs that are known to fit nowhere. More: each machine that changes is compared with more of
them; fewer: one that is new is sought on more machines in vain."""


class RoomPresent:
    """The most that any machine of a block may have free of each resource."""

    __slots__ = ("cpus", "gpus", "memory")

    def __init__(self) -> None:
        self.cpus = self.memory = self.gpus = 0

    def include(self, view: MachineView) -> None:
        """A machine is there, with what it has free now."""
        free = view.calendar.free
        if free.cpus > self.cpus:
            self.cpus = free.cpus
        if free.memory_bytes > self.memory:
            self.memory = free.memory_bytes
        if free.gpus > self.gpus:
            self.gpus = free.gpus

    def may_hold(self, need: Resources) -> bool:
        """Whether `need` may fit on one of them."""
        return (
            need.cpus <= self.cpus and need.memory_bytes <= self.memory and need.gpus <= self.gpus
        )


class AvailableMachines:
    """By rank; see the module. A machine that changed is put in its place again."""

    def __init__(self) -> None:
        self._order: BlockedSortedList[Rank, MachineView, RoomPresent] = BlockedSortedList(
            RoomPresent
        )
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
            self._ranks[view.name] = rank
            self._order.move_only(rank)
        elif self._ranks.get(view.name) != rank:
            self.drop(view.name)
            if rank is not None:
                self._ranks[view.name] = rank
                self._order.add(rank, view)
        elif rank is not None:
            self._order.grew(rank, view)

    def drop(self, machine: str) -> None:
        """It is not open any more."""
        rank = self._ranks.pop(machine, None)
        if rank is not None:
            self._order.remove(rank)

    def with_room(self, need: Resources) -> Iterator[MachineView]:
        """Those with that much free, in order; nothing may change while it is asked for more."""
        for known in self._lacking:
            if known.fits_in(need):
                return
        is_anywhere = False
        for block in self._order.blocks:
            if not block.summary.may_hold(need):
                continue
            is_there = False
            for view in block.items:
                if need.fits_in(view.calendar.free):
                    is_there = is_anywhere = True
                    yield view
            if not is_there:
                block.summarize()
        if not is_anywhere:
            self._lack(need)

    def _lack(self, need: Resources) -> None:
        """It fits on none; what is at least as large need not be kept beside it."""
        smaller = [known for known in self._lacking if not need.fits_in(known)]
        self._lacking = [*smaller[-LACKING_MAX + 1 :], need]

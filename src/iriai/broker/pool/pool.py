"""All machines, by what a pass asks of them: which are open, which have new room, of what kinds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge

from iriai.broker.pool.available_machines import AvailableMachines
from iriai.broker.pool.machine_view import MachineView
from iriai.model.resources import Resources

End = tuple[float, str]
"""When the first claim of a machine ends, and its name."""


class MachinePool:
    """Kept up with each change of a machine; see the module."""

    def __init__(self) -> None:
        self.views: dict[str, MachineView] = {}
        self.open = AvailableMachines()
        self.fresh: dict[str, MachineView] = {}
        """Those with room that was not there when last nothing more could start."""
        self.news: dict[str, MachineView] = {}
        """Those of them with room that was not there when the last pass began."""
        self.total_cpus = 0
        self._kinds: dict[Resources, list[End]] = {}
        """By capacity; first ends in order."""
        self._ends: dict[str, float] = {}
        """Under which first end each stands there."""

    def put(self, view: MachineView) -> None:
        """A machine is new, or is known anew."""
        old = self.views.get(view.name)
        if old is not None:
            self._leave_kind(old)
        capacity = view.calendar.capacity
        self.views[view.name] = view
        self.total_cpus += capacity.cpus
        end_s = self._ends[view.name] = view.calendar.first_end_s
        insort(self._kinds.setdefault(capacity, []), (end_s, view.name))
        self.grew(view)

    def drop(self, view: MachineView) -> None:
        """A machine is gone for good."""
        self._leave_kind(view)
        del self.views[view.name], self._ends[view.name]
        self.fresh.pop(view.name, None)
        self.news.pop(view.name, None)

    def capacities(self) -> list[Resources]:
        """Each that some machine has, once."""
        return list(self._kinds)

    def changed(self, view: MachineView) -> None:
        """What a machine has free changed, or whether it takes anything."""
        self.open.place(view)
        end_s = view.calendar.first_end_s
        known_s = self._ends[view.name]
        if end_s != known_s:
            ends = self._kinds[view.calendar.capacity]
            del ends[bisect_left(ends, (known_s, view.name))]
            insort(ends, (end_s, view.name))
            self._ends[view.name] = end_s

    def grew(self, view: MachineView) -> None:
        """It changed, and may hold what it could not hold before."""
        self.changed(view)
        self.fresh[view.name] = self.news[view.name] = view

    def nothing_left(self) -> None:
        """Nothing that waits could start: from now on, room that appears is new."""
        self.fresh.clear()
        self.news.clear()

    def has_kind_for(self, resources: Resources) -> bool:
        """Whether some machine could hold that if nothing ran there."""
        return any(resources.fits_in(capacity) for capacity in self._kinds)

    def by_first_end(self, resources: Resources) -> Iterator[tuple[float, MachineView]]:
        """Those that could ever hold that, and their first ends, in the order of these."""
        able = [ends for capacity, ends in self._kinds.items() if resources.fits_in(capacity)]
        for end_s, name in able[0] if len(able) == 1 else merge(*able):
            yield end_s, self.views[name]

    def check(self) -> None:
        """Raise where an index is not what the machines are."""
        for view in self.views.values():
            view.check()
            assert (view.name in self.open) == view.is_open, f"whether {view.name} is open"
            assert self._ends[view.name] == view.calendar.first_end_s, f"first end of {view.name}"
        assert sum(map(len, self._kinds.values())) == len(self.views)
        cpus = sum(view.calendar.capacity.cpus for view in self.views.values())
        assert self.total_cpus == cpus, f"{self.total_cpus} cpus counted, {cpus} there"

    def _leave_kind(self, view: MachineView) -> None:
        self.open.drop(view.name)
        capacity = view.calendar.capacity
        ends = self._kinds[capacity]
        del ends[bisect_left(ends, (self._ends[view.name], view.name))]
        if not ends:
            del self._kinds[capacity]
        self.total_cpus -= capacity.cpus

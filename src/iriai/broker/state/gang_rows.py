"""Gangs on their machines, in rows of time slices, and what calendars hold of all that gives way.

The calendar of a machine holds the most of any row, so that places, heads and promises are computed
as ever (docs/spec/013, section 8). What calendars hold depends on the rows alone, not on who fills
idle ones: so it is kept with each change, and turns are computed once when all have been made.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.state.preemptible_task import PreemptibleTask, Standing
from iriai.model.resources import Resources
from iriai.model.turn import NEVER
from iriai.policy.placement.slice_matrix import Gang, Holding, held_cpus, slots_of_linked


class SettledGangs:
    """The gangs whose turns are others than before."""

    def __init__(self) -> None:
        self.turned: list[PreemptibleTask] = []
        self.without_row: list[PreemptibleTask] = []
        """Those that fit in no row: a machine says that it has less than it had."""
        self.has_moved = False
        """Whether any has another row of its own."""


class _Extra(NamedTuple):
    """What gangs of a machine leave idle."""

    pool: str
    by_row: tuple[int, ...]
    """The cpus that each row has beside those that are free."""


class GangRows:
    """Lives as long as the broker."""

    def __init__(
        self,
        index: MachineIndex,
        by_machine: Mapping[str, Mapping[ClaimKey, PreemptibleTask]],
        rows_max: int,
    ) -> None:
        self._index = index
        self._by_machine = by_machine
        self.rows_max = rows_max
        self.unsettled: dict[str, None] = {}
        """Machines whose gangs may have other rows now."""
        self._unheld: dict[str, None] = {}
        """Machines of which calendars may hold something else than their claims need."""
        self._resized: dict[MachineView, bool] = {}
        """Machines whose calendars have changed and whose indices have not; whether any grew."""
        self.resized: dict[str, bool] = {}
        """Machines whose calendars have changed since a pass looked; whether any has more room."""
        self._loads: dict[str, dict[int, int]] = {}
        self._held_cpus: dict[str, int] = {}
        """What calendars of machines hold for gangs that run."""
        self._cpus: dict[PreemptibleTask, dict[str, int]] = {}
        """What gangs take, by machine."""
        self._extras: dict[str, _Extra] = {}
        self._uncounted: dict[str, None] = {}
        """Machines whose gangs have changed since these were counted."""
        self._extra_cpus: dict[str, list[int]] = {}
        """By pool and row."""

    # --- changes ---------------------------------------------------------------------------------

    def changed(self, machine: str) -> None:
        """Note that other claims of a machine run now, or in other rows."""
        self.unsettled[machine] = None
        self._reckon_anew(machine)

    def _reckon_anew(self, machine: str) -> None:
        """Note that the rows of a machine have other loads; its calendar holds what they had."""
        self._unheld[machine] = None
        self._loads.pop(machine, None)
        self._uncounted[machine] = None

    def touch(self, task: PreemptibleTask) -> None:
        """Note that a task runs, stands, or has another row."""
        self._cpus.pop(task, None)
        for seat in task.seats.values():
            self.changed(seat.view.name)

    def left(self, machine: str, task: PreemptibleTask) -> None:
        """Note that a task has left a machine, where others may be linked by it no more."""
        self._cpus.pop(task, None)
        self.changed(machine)
        view = self._index.views.get(machine)
        if view is not None and machine in self._held_cpus:
            self._held_cpus[machine] = sum(
                view.calendar.held_by(key).cpus
                for key, other in self._by_machine.get(machine, {}).items()
                if other.is_in_row(key)
            )
        for seat in islice(task.seats.values(), 1):
            self.unsettled[seat.view.name] = None

    def resize(self, task: PreemptibleTask) -> None:
        """Let calendars hold what a task needs that is in no row; no other claim is concerned."""
        for key, seat in task.seats.items():
            self._resize(seat.view, key, seat.resources, task.held_cpus(seat))
            self.room_changed(seat.view.name)

    def room_changed(self, machine: str) -> None:
        """Note that gangs have more or less room: those that fill rows of others, first of all."""
        if machine in self._by_machine and len(self.loads(machine)) > 1:
            self.unsettled[machine] = None

    def _resize(self, view: MachineView, key: ClaimKey, resources: Resources, cpus: int) -> None:
        if key not in view.calendar or self._index.views.get(view.name) is not view:
            return
        before = view.calendar.held_by(key)
        wanted = resources.with_cpus(cpus)
        if wanted != before:
            view.calendar.resize(key, wanted)
            self._resized[view] = wanted.cpus < before.cpus or self._resized.get(view, False)

    # --- queries ---------------------------------------------------------------------------------

    def loads(self, machine: str) -> dict[int, int]:
        """Return the cpus of gangs that run on a machine, by row; not to be changed."""
        loads = self._loads.get(machine)
        if loads is None:
            loads = self._loads[machine] = {}
            for key, task in self._by_machine.get(machine, {}).items():
                if task.is_in_row(key):
                    loads[task.row] = loads.get(task.row, 0) + task.seats[key].resources.cpus
        return loads

    def free_cpus(self, view: MachineView, row: int, level: int) -> int:
        """Return the cpus that a gang of that level may have on a machine in a row.

        A new row takes time from those of the others, so from none of a higher level.
        """
        free_cpus, loads = self.free_beside(view), self.loads(view.name)
        if not loads:
            return free_cpus if row < self.rows_max else 0
        if row not in loads:
            if row >= self.rows_max:
                return 0
            if level and row > max(loads) and self._highest_level(view.name) < level:
                return 0
        return free_cpus + max(loads.values()) - loads.get(row, 0)

    def free_beside(self, view: MachineView) -> int:
        """Return the cpus that are free in all rows, whatever the calendar holds yet."""
        held_cpus = self._held_cpus.get(view.name, 0)
        return view.calendar.free.cpus + held_cpus - self._most(view.name)

    def _highest_level(self, machine: str) -> int:
        return min(
            task.level for key, task in self._by_machine[machine].items() if task.is_in_row(key)
        )

    def extra_cpus(self, pool: str, row: int) -> int:
        """Return how many cpus a row has on the machines of a pool beside those that are free."""
        for name in self._uncounted:
            self._count(name)
        self._uncounted.clear()
        by_row = self._extra_cpus.get(pool)
        return by_row[row] if by_row else 0

    def _count(self, machine: str) -> None:
        """Count anew what a machine has beside its free cpus."""
        before = self._extras.pop(machine, None)
        if before is not None:
            totals = self._extra_cpus[before.pool]
            for row, cpus in enumerate(before.by_row):
                totals[row] -= cpus
        view, loads = self._index.views.get(machine), self.loads(machine)
        if view is None or not loads:
            return
        most = max(loads.values())
        extra = _Extra(view.pool, tuple(most - loads.get(row, 0) for row in range(self.rows_max)))
        self._extras[machine] = extra
        totals = self._extra_cpus.setdefault(view.pool, [0] * self.rows_max)
        for row, cpus in enumerate(extra.by_row):
            totals[row] += cpus

    def configured(self, rows_max: int) -> None:
        """Take another number of rows."""
        self.rows_max = rows_max
        self._uncounted |= dict.fromkeys(self._extras)
        self._extras.clear()
        self._extra_cpus.clear()

    # --- turns -----------------------------------------------------------------------------------

    def settle(self) -> SettledGangs:
        """Compute the turns of gangs where anything changed; calendars hold what they need then."""
        self.hold()
        settled = SettledGangs()
        unsettled, self.unsettled = self.unsettled, {}
        seen: dict[str, None] = {}
        for name in unsettled:
            if name not in seen and self.loads(name):
                self._settle_part(name, seen, settled)
        self.hold()
        return settled

    def _settle_part(self, machine: str, seen: dict[str, None], settled: SettledGangs) -> None:
        """Settle a machine and those whose gangs are linked with its own."""
        machines, tasks = self._linked(machine)
        seen |= machines
        rooms = {name: self._room(name) for name in machines}
        gangs = [Gang(task, task.precedence, self._cpus_of(task), task.row) for task in tasks]
        for task, slot in slots_of_linked(gangs, rooms, self.rows_max).items():
            if task.standing is not Standing.RUNS:
                continue  # what is being ended keeps its turn
            if slot.turn == NEVER:
                settled.without_row.append(task)
                continue
            if task.row != slot.row:
                task.row, settled.has_moved = slot.row, True
                for seat in task.seats.values():
                    self._reckon_anew(seat.view.name)
            elif task.turn == slot.turn:
                continue
            task.turn = slot.turn
            settled.turned.append(task)

    def _linked(self, machine: str) -> tuple[dict[str, None], list[PreemptibleTask]]:
        """Return the machines that share gangs with one, by others too, and all those gangs."""
        machines: dict[str, None] = {machine: None}
        gangs: dict[PreemptibleTask, None] = {}
        ahead = [machine]
        while ahead:
            for key, task in self._by_machine.get(ahead.pop(), {}).items():
                if task in gangs or not task.is_in_row(key):
                    continue
                gangs[task] = None
                for name in self._cpus_of(task):
                    if name not in machines:
                        machines[name] = None
                        ahead.append(name)
        return machines, list(gangs)

    def _room(self, machine: str) -> int:
        """Return the cpus of a machine that gangs may have: what no other claim holds."""
        view = self._index.views.get(machine)
        return 0 if view is None else view.calendar.free.cpus + self._most(machine)

    def _most(self, machine: str) -> int:
        """Return the cpus of the fullest row of a machine, which its calendar holds."""
        return max(self.loads(machine).values(), default=0)

    def _cpus_of(self, task: PreemptibleTask) -> dict[str, int]:
        cpus = self._cpus.get(task)
        if cpus is None:
            cpus = self._cpus[task] = task.cpus_by_machine()
        return cpus

    # --- calendars -------------------------------------------------------------------------------

    def hold(self) -> None:
        """Let the calendars of machines hold what their claims need, by their rows."""
        unheld, self._unheld = self._unheld, {}
        for name in unheld:
            view = self._index.views.get(name)
            if view is not None:
                self._hold(view)
        for view, has_grown in self._resized.items():
            if self._index.views.get(view.name) is not view:
                continue
            self.resized[view.name] = has_grown or self.resized.get(view.name, False)
            if has_grown:
                self._index.grew(view)
            else:
                self._index.changed(view)
        self._resized.clear()

    def _hold(self, view: MachineView) -> None:
        """Let the calendar of a machine hold what each of these claims needs."""
        claims, loads = self._by_machine.get(view.name, {}), self.loads(view.name)
        held: dict[ClaimKey, int] = {}
        if loads:
            held = held_cpus(
                Holding(
                    key, task.seats[key].resources.cpus, 1 << task.row, view.calendar.end_s(key)
                )
                for key, task in claims.items()
                if task.is_in_row(key) and key in view.calendar
            )
        for key, task in claims.items():
            seat = task.seats[key]
            self._resize(view, key, seat.resources, held.get(key, task.held_cpus(seat)))
        if loads:
            self._held_cpus[view.name] = sum(held.values())
        else:
            self._held_cpus.pop(view.name, None)
        row_cpus = 0
        if loads and (view.has_clock or not view.mints):
            row_cpus = max(loads.values())
            if len(loads) >= self.rows_max:
                row_cpus -= min(loads.values())
        if row_cpus != view.row_cpus:
            self._resized[view] = row_cpus > view.row_cpus or self._resized.get(view, False)
            view.row_cpus = row_cpus

    def check(self) -> None:
        """Raise if rows hold more than there is, or less is counted."""
        for name in self._by_machine:
            loads, view = self.loads(name), self._index.views.get(name)
            self._loads.pop(name)
            assert loads == self.loads(name), f"the rows of {name} have {loads}"
            if view is not None and view.calendar.free.cpus >= 0 and name not in self.unsettled:
                held = sum(
                    view.calendar.held_by(key).cpus
                    for key, task in self._by_machine[name].items()
                    if task.is_in_row(key)
                )
                assert held == self._most(name), f"{name} holds {held} cpus for rows of {loads}"
        for pool in dict.fromkeys(view.pool for view in self._index.views.values()):
            for row in range(self.rows_max):
                counted = self.extra_cpus(pool, row)
                loads_of = [
                    self.loads(name)
                    for name in self._by_machine
                    if name in self._index.views and self._index.views[name].pool == pool
                ]
                extra = sum(max(each.values()) - each.get(row, 0) for each in loads_of if each)
                assert counted == extra, f"row {row} of {pool!r} has {extra}, not {counted}"

"""Running tasks of queues in mode `exclusive` or `gang`: they stand aside for higher queues.

All seats of a task stand or run together. What a task that stands keeps is all but its cpus. Gangs
share machines in rows of time slices: the calendar of a machine holds the most of any row, so that
places, heads and promises are computed as ever. docs/spec/013, section 7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.config.reader import Configuration
from iriai.config.sections import QueueMode
from iriai.model.bounds import QUEUE_MAX
from iriai.model.ids import AttemptId
from iriai.model.resources import Resources
from iriai.model.turn import ALWAYS, NEVER, RowSet
from iriai.policy.placement.slice_matrix import Gang, Holding, held_cpus, slots
from iriai.protocol.messages.scheduling import Capability, Running


class Standing(Enum):
    """Whether a task has its cpus."""

    RUNS = "runs"
    ASIDE = "aside"
    """Not while a pass serves higher levels; it takes them again in the same pass if it can."""
    PREEMPTED = "preempted"


class PreemptibleSeat:
    """The claim of one seat, or the match that becomes one."""

    __slots__ = ("resources", "view")

    def __init__(self, view: MachineView, resources: Resources) -> None:
        self.view = view
        self.resources = resources
        """What it holds while it runs alone."""


@dataclass(slots=True, eq=False)
class PreemptibleTask:
    """A running task, with all its seats."""

    queue: int
    level: int
    order: int
    """Of its start: of one level, who was first takes its cpus first."""
    is_gang: bool
    """Whether it takes turns with others: not without a limit of memory, so nothing swaps."""
    seats: dict[ClaimKey, PreemptibleSeat] = field(default_factory=dict)
    standing: Standing = Standing.RUNS
    row: int = 0
    turn: RowSet = ALWAYS
    is_stopped: bool = False
    """Whether it stands because its queue is stopped."""
    since_s: float = 0.0
    """Since when it stands, or runs, on the steady clock."""
    attempt: AttemptId | None = None
    """The name of its first seat; None: no machine has told of any."""
    machines: frozenset[str] = frozenset()
    """Those that it was matched with: no other has a seat of it. Empty: another broker knew."""

    @property
    def precedence(self) -> tuple[int, int]:
        """Return its order among others: smaller takes its cpus first."""
        return self.level, self.order

    @property
    def is_granted(self) -> bool:
        """Return whether no seat is a match yet, which may still fail."""
        return not any(isinstance(key, Capability) for key in self.seats)

    def cpus_by_machine(self) -> dict[str, int]:
        """Return what it takes while it runs."""
        cpus: dict[str, int] = {}
        for seat in self.seats.values():
            name = seat.view.name
            cpus[name] = cpus.get(name, 0) + seat.resources.cpus
        return cpus


class PreemptibleClaims:
    """By claim and machine. Nothing is here unless a queue has such a mode."""

    def __init__(self, configuration: Configuration, index: MachineIndex) -> None:
        self._index = index
        self.modes: Mapping[int, QueueMode] = configuration.queue_modes
        self.rows_max = configuration.gang.rows_max
        age_s = configuration.order.age_s
        self._age_s = inf if age_s is None else age_s
        self._now_s = 0.0
        self.tasks: dict[PreemptibleTask, None] = {}
        self.by_key: dict[ClaimKey, PreemptibleTask] = {}
        self.by_machine: dict[str, dict[ClaimKey, PreemptibleTask]] = {}
        self._of_attempt: dict[AttemptId, PreemptibleTask] = {}
        """By the attempt, which is the name of its first seat."""
        self.standing: dict[PreemptibleTask, None] = {}
        """Those that stand."""
        self.resized: dict[str, bool] = {}
        """Machines whose calendars have changed since a pass looked; whether any has more room."""
        self.to_tell: dict[str, None] = {}
        """Machines whose claims have other turns than they were told."""
        self.unsettled: dict[str, None] = {}
        """Machines whose gangs may have other rows now."""
        self.has_news = False
        """Whether there are tasks, queues or levels that no pass has looked at."""
        self._orders = 0

    # --- what runs -------------------------------------------------------------------------------

    def configured(self, configuration: Configuration) -> None:
        """Take other modes: what runs in queues that were `shared` is not known here yet."""
        self.has_news = True
        self.modes, self.rows_max = configuration.queue_modes, configuration.gang.rows_max
        for task in list(self.tasks):
            if task.queue not in self.modes and task.standing is Standing.RUNS:
                self._back(task)
                for key, seat in list(task.seats.items()):
                    self.to_tell[seat.view.name] = None
                    self.dropped(key)
            else:
                self._regard(task)

    def started(
        self, queue: int, level: int, seats: Iterable[tuple[MachineView, ClaimKey]], row: int
    ) -> None:
        """Add a task that was matched, if its queue has such a mode."""
        seats = list(seats)
        if queue not in self.modes or any(_has_all(v, v.calendar.held_by(key)) for v, key in seats):
            return
        task = self._add(queue, level)
        task.row = row
        for view, key in seats:
            self._put(task, key, view, view.calendar.held_by(key))
        task.machines = frozenset(view.name for view, _ in seats)
        self._regard(task)
        if row or task.is_gang:
            self.settle_machines()

    def granted(self, key: ClaimKey, running: Running) -> None:
        """Let a match become the claim that its machine granted."""
        task = self.by_key.pop(key, None)
        if task is None:
            return
        seat = task.seats.pop(key)
        del self.by_machine[seat.view.name][key]
        self._named(task, running.attempt)
        self._put(task, running.attempt, seat.view, seat.resources)
        self.has_news = True

    def know(self, view: MachineView, running: Running) -> None:
        """Take a claim of which a machine tells, and that no match of this broker became."""
        task = self.by_key.get(running.attempt)
        self.has_news = True
        if task is not None:
            if running.queue > task.queue:
                self._moved(task, running.queue)
            task.seats[running.attempt].resources = running.when_it_runs
            self._touch(task)
            return
        gives_way = running.queue in self.modes and not _has_all(view, running.resources)
        if running.attempt not in view.calendar or not (gives_way or running.is_preempted):
            return
        first = running.attempt.seat(0)
        task = self._of_attempt.get(first)
        if task is not None and task.machines and view.name not in task.machines:
            return  # it lies: what it says concerns its own calendar alone
        if task is None:
            task = self._add(running.queue, running.queue)
            self._named(task, running.attempt)
            task.row = running.row
            if running.is_preempted:
                task.standing, task.turn = Standing.PREEMPTED, NEVER
                self.standing[task] = None
        elif running.is_preempted is (task.standing is Standing.RUNS):
            self._tell(task)  # its seats differ
        self._put(task, running.attempt, view, running.when_it_runs)
        self._regard(task)

    def _moved(self, task: PreemptibleTask, queue: int) -> None:
        """Let a task go on in another queue, where its time of residence sent it."""
        task.queue = task.level = queue
        self._regard(task)

    def _regard(self, task: PreemptibleTask) -> None:
        """Note whether a task takes turns now; one that does not any more stands first."""
        was_gang = task.is_gang
        task.is_gang = self.modes.get(task.queue) == "gang" and _takes_turns(task)
        self._touch(task)
        if was_gang and not task.is_gang and task.turn not in (ALWAYS, NEVER):
            self._preempt(task)

    def dropped(self, key: ClaimKey) -> None:
        """Forget a claim or match that is over."""
        task = self.by_key.pop(key, None)
        if task is None:
            return
        seat = task.seats.pop(key)
        name = seat.view.name
        self.by_machine[name].pop(key, None)
        if not self.by_machine[name]:
            del self.by_machine[name]
        self.unsettled[name] = None
        self._touch(task)
        if not task.seats:
            del self.tasks[task]
            self.standing.pop(task, None)
            if task.attempt is not None:
                del self._of_attempt[task.attempt]

    def _add(self, queue: int, level: int) -> PreemptibleTask:
        self._orders += 1
        task = PreemptibleTask(queue, level, self._orders, is_gang=False, since_s=self._now_s)
        self.tasks[task] = None
        return task

    def _named(self, task: PreemptibleTask, seat: AttemptId) -> None:
        """Note of which attempt a task is; the first that says so counts."""
        if task.attempt is None and seat.seat(0) not in self._of_attempt:
            task.attempt = seat.seat(0)
            self._of_attempt[task.attempt] = task

    def _put(
        self, task: PreemptibleTask, key: ClaimKey, view: MachineView, resources: Resources
    ) -> None:
        task.seats[key] = PreemptibleSeat(view, resources)
        self.by_key[key] = task
        self.by_machine.setdefault(view.name, {})[key] = task

    def _touch(self, task: PreemptibleTask) -> None:
        for seat in task.seats.values():
            self.unsettled[seat.view.name] = None

    # --- standing --------------------------------------------------------------------------------

    def stands(self, key: ClaimKey) -> bool:
        """Return whether the claim of a task has no cpus at present."""
        task = self.by_key.get(key)
        return task is not None and task.standing is not Standing.RUNS

    @property
    def first_level(self) -> int:
        """Return the highest level of what stands; that of no queue: nothing does."""
        return min((task.level for task in self.standing), default=QUEUE_MAX + 1)

    def stand_aside(self, level: int, starting: Collection[int]) -> list[PreemptibleTask]:
        """Free the cpus of what runs below a level, or in stopped queues; return all that stands.

        They are in the order in which they take their cpus again.
        """
        self.has_news = False
        for task in self.tasks:
            is_due = task.level > level or task.queue not in starting
            if (
                is_due
                and task.queue in self.modes
                and task.standing is Standing.RUNS
                and task.is_granted
            ):
                task.standing = Standing.ASIDE
                self.standing[task] = None
                self._touch(task)
        self.settle_machines()
        return sorted(self.standing, key=lambda task: task.precedence)

    def take_back(self, task: PreemptibleTask, *, is_stopped: bool) -> None:
        """Let a task that stands run again if its cpus are free on all machines; else it stands."""
        was_aside = task.standing is Standing.ASIDE
        row = None if is_stopped else self._row_for(task)
        if row is not None:
            task.row = row
            self._back(task, has_stood=not was_aside)
            self.settle_machines()
        else:
            task.standing, task.turn, task.is_stopped = Standing.PREEMPTED, NEVER, is_stopped
            if was_aside:
                task.since_s = self._now_s
        self._tell(task)

    def _back(self, task: PreemptibleTask, *, has_stood: bool = True) -> None:
        task.standing, task.is_stopped = Standing.RUNS, False
        self.standing.pop(task, None)
        if has_stood:
            task.since_s, task.turn = self._now_s, ALWAYS
        self._touch(task)

    def clock_changed(self, view: MachineView) -> None:
        """Let a machine take part in time slices, or no more: what took turns there stands."""
        for task in dict.fromkeys(self.by_machine.get(view.name, {}).values()):
            self._regard(task)
        self.unsettled[view.name] = None
        self.has_news = bool(self.modes)

    def was_not_taken(self, key: ClaimKey) -> None:
        """Note that a machine had no cpus for a claim that was to run again: all of it stands."""
        task = self.by_key.get(key)
        if task is not None and task.standing is Standing.RUNS:
            self._preempt(task)

    def relieve(self, view: MachineView) -> None:
        """Let tasks stand that were to run on a machine where others have their cpus meanwhile."""
        claims = self.by_machine.get(view.name, {})
        running = {task: None for task in claims.values() if task.standing is Standing.RUNS}
        for task in sorted(running, key=lambda task: task.precedence, reverse=True):
            if view.calendar.free.cpus >= 0:
                return
            if task.is_granted:
                self._preempt(task)
                self.settle_machines()

    def _preempt(self, task: PreemptibleTask) -> None:
        task.standing, task.turn, task.since_s = Standing.PREEMPTED, NEVER, self._now_s
        self.standing[task] = None
        self.has_news = True
        self._touch(task)
        self._tell(task)

    def age(self, now_s: float) -> bool:
        """Let what has stood long enough count in a higher queue, and what has run in its own.

        Returns whether any does.
        """
        self._now_s = now_s
        has_changed = False
        for task in self.tasks:
            if self._due_s(task) <= now_s:
                is_standing = task.standing is Standing.PREEMPTED
                task.level = task.level - 1 if is_standing else task.queue
                task.since_s = now_s
                has_changed = True
        return has_changed

    @property
    def next_s(self) -> float:
        """Return when the next of those is due; infinite: none is."""
        return min(map(self._due_s, self.tasks), default=inf)

    def _due_s(self, task: PreemptibleTask) -> float:
        is_standing = task.standing is Standing.PREEMPTED
        may_change = task.level > 0 if is_standing else task.level < task.queue
        return task.since_s + self._age_s if may_change else inf

    def fits(self, task: PreemptibleTask) -> bool:
        """Return whether a task that stands could take its cpus now."""
        return self._row_for(task) is not None

    def _row_for(self, task: PreemptibleTask) -> int | None:
        """Return a row in which all of a task fits now; None: there is none."""
        needs = [(seat.view, seat.resources.cpus) for seat in task.seats.values()]
        if all(cpus <= view.calendar.free.cpus for view, cpus in needs):
            return task.row if task.row < self.rows_max else 0
        if not task.is_gang:
            return None
        rows = [task.row, *(row for row in range(self.rows_max) if row != task.row)]
        for row in rows:
            if all(cpus <= self.free_cpus(view, row, task.level) for view, cpus in needs):
                return row
        return None

    # --- rows ------------------------------------------------------------------------------------

    def loads(self, machine: str) -> dict[int, int]:
        """Return the cpus of gangs that run on a machine, by row."""
        loads: dict[int, int] = {}
        for key, task in self.by_machine.get(machine, {}).items():
            if task.is_gang and task.standing is Standing.RUNS:
                loads[task.row] = loads.get(task.row, 0) + task.seats[key].resources.cpus
        return loads

    def free_cpus(self, view: MachineView, row: int, level: int) -> int:
        """Return the cpus that a gang of that level may have on a machine in a row.

        A new row takes time from those of the others, so from none of a higher level.
        """
        free_cpus, loads = view.calendar.free.cpus, self.loads(view.name)
        if not loads:
            return free_cpus if row < self.rows_max else 0
        if row not in loads:
            highest = min(
                task.level
                for task in self.by_machine[view.name].values()
                if task.is_gang and task.standing is Standing.RUNS
            )
            if row >= self.rows_max or (highest < level and row > max(loads)):
                return 0
        return free_cpus + max(loads.values()) - loads.get(row, 0)

    def free_for(self, key: ClaimKey, view: MachineView) -> int:
        """Return the cpus that are free for more of a claim: of what takes turns, in its row."""
        task = self.by_key.get(key) if self.tasks else None
        if task is None or not task.is_gang or task.standing is not Standing.RUNS:
            return view.calendar.free.cpus
        return self.free_cpus(view, task.row, task.level)

    def settle_machines(self) -> None:
        """Let the calendars of machines hold what their claims need, by their rows."""
        for name in list(self.unsettled):
            if name in self.unsettled:
                self._settle_part(name)

    def _settle_part(self, machine: str) -> None:
        """Settle a machine and those whose gangs are linked with its own."""
        machines, gangs = self._linked(machine)
        rooms = {name: self._room(name) for name in machines}
        if gangs:
            ordered = [
                Gang(task, task.precedence, task.cpus_by_machine(), task.row) for task in gangs
            ]
            for task, slot in slots(ordered, rooms, self.rows_max).items():
                if slot.turn == NEVER:
                    self._preempt(task)  # a machine says that there are more than it has
                elif (task.row, task.turn) != slot:
                    task.row, task.turn = slot
                    self._tell(task)
        for name in machines:
            self.unsettled.pop(name, None)
            self._hold(name)

    def _linked(self, machine: str) -> tuple[list[str], list[PreemptibleTask]]:
        """Return the machines that share gangs with one, by others too, and all those gangs."""
        machines: dict[str, None] = {machine: None}
        gangs: dict[PreemptibleTask, None] = {}
        for name in _growing(machines):
            for task in self.by_machine.get(name, {}).values():
                if task.is_gang and task.standing is Standing.RUNS and task not in gangs:
                    gangs[task] = None
                    machines.update(dict.fromkeys(s.view.name for s in task.seats.values()))
        return list(machines), list(gangs)

    def _room(self, machine: str) -> int:
        """Return the cpus of a machine that gangs may have: what no other claim holds."""
        view, held = self._index.views.get(machine), 0
        if view is None:
            return 0
        for key, task in self.by_machine.get(machine, {}).items():
            if key in view.calendar:
                held += view.calendar.held_by(key).cpus
                if not task.is_gang and task.standing is Standing.RUNS:  # it may hold less yet
                    held -= task.seats[key].resources.cpus
        return view.calendar.free.cpus + held

    def _hold(self, machine: str) -> None:
        """Let the calendar of a machine hold what each of these claims needs."""
        view = self._index.views.get(machine)
        if view is None:
            return
        claims = self.by_machine.get(machine, {})
        gangs = [
            Holding(key, task.seats[key].resources.cpus, 1 << task.row, view.calendar.end_s(key))
            for key, task in claims.items()
            if task.is_gang and task.standing is Standing.RUNS and key in view.calendar
        ]
        held = held_cpus(gangs)
        has_changed = has_grown = False
        for key, task in claims.items():
            if key not in view.calendar:
                continue
            resources = task.seats[key].resources
            is_running = task.standing is Standing.RUNS
            cpus = held.get(key, resources.cpus if is_running else 0)
            before = view.calendar.held_by(key)
            wanted = resources.minus(Resources(cpus=resources.cpus - cpus))
            if wanted != before:
                view.calendar.resize(key, wanted)
                has_grown |= wanted.cpus < before.cpus
                has_changed = True
        loads = self.loads(machine)
        most = max(loads.values(), default=0)
        row_cpus = most if len(loads) < self.rows_max else most - min(loads.values(), default=0)
        if view.mints and not view.has_clock:
            row_cpus = 0
        has_grown |= row_cpus > view.row_cpus
        if has_grown or has_changed or row_cpus != view.row_cpus:
            view.row_cpus = row_cpus
            self.resized[machine] = has_grown or self.resized.get(machine, False)
            if has_grown:
                self._index.grew(view)
            else:
                self._index.changed(view)

    def _tell(self, task: PreemptibleTask) -> None:
        for seat in task.seats.values():
            self.to_tell[seat.view.name] = None

    def check(self) -> None:
        """Raise if the indices disagree, or rows hold more than there is."""
        for task in self.tasks:
            assert task.seats, "a task without seats"
            for key, seat in task.seats.items():
                assert self.by_key[key] is task
                assert self.by_machine[seat.view.name][key] is task
        for name in self.by_machine:
            view = self._index.views.get(name)
            if view is not None and view.calendar.free.cpus >= 0 and name not in self.unsettled:
                loads, room = self.loads(name), self._room(name)
                assert max(loads.values(), default=0) <= room, f"{name}: {loads} of {room} cpus"


def _has_all(view: MachineView, resources: Resources) -> bool:
    """Return whether a claim has the whole machine: its cpus alone are of no use to others."""
    return resources == view.calendar.capacity


def _takes_turns(task: PreemptibleTask) -> bool:
    """Return whether it has a limit of memory, and all its machines know the time."""
    return all(
        seat.resources.memory_bytes > 0 and (seat.view.has_clock or not seat.view.mints)
        for seat in task.seats.values()
    )


def _growing(names: dict[str, None]) -> Iterator[str]:
    """Yield names, those that are added meanwhile too."""
    ordered, seen = list(names), 0
    while seen < len(ordered):
        yield ordered[seen]
        seen += 1
        if len(names) > len(ordered):
            ordered += list(names)[len(ordered) :]

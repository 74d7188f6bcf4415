"""Running tasks of queues in mode `exclusive` or `gang`: they stand aside for higher queues.

All seats of a task stand or run together. What a task that stands keeps is all but its cpus.
docs/spec/013, section 7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.state.gang_rows import GangRows
from iriai.broker.state.preemptible_task import (
    PreemptibleSeat,
    PreemptibleTask,
    Standing,
    has_all,
)
from iriai.config.reader import Configuration
from iriai.config.sections import QueueMode
from iriai.model.bounds import QUEUE_MAX
from iriai.model.ids import AttemptId
from iriai.model.resources import Resources
from iriai.model.turn import ALWAYS, NEVER
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.protocol.messages.scheduling import Capability, Running

RETRY_S = 1.0
"""How long a task stands at least that its machine had no cpus for, or that is in the way."""


class PreemptibleClaims:
    """By claim and machine. Nothing is here unless a queue has such a mode."""

    def __init__(self, configuration: Configuration, index: MachineIndex) -> None:
        self.modes: Mapping[int, QueueMode] = configuration.queue_modes
        age_s = configuration.order.age_s
        self._age_s = inf if age_s is None else age_s
        self._now_s = 0.0
        self.tasks: dict[PreemptibleTask, None] = {}
        self.by_key: dict[ClaimKey, PreemptibleTask] = {}
        self.by_machine: dict[str, dict[ClaimKey, PreemptibleTask]] = {}
        self.rows = GangRows(index, self.by_machine, configuration.gang.rows_max)
        self._of_attempt: dict[AttemptId, PreemptibleTask] = {}
        """By the attempt, which is the name of its first seat."""
        self.standing: dict[PreemptibleTask, None] = {}
        """Those that stand."""
        self._gathering: dict[PreemptibleTask, None] = {}
        """Those of them for which machines keep cpus."""
        self._raised: dict[PreemptibleTask, None] = {}
        """Those that count in a higher queue than their own."""
        self.joined: dict[str, None] = {}
        """Machines with bookings where tasks were started since others stood aside."""
        self.to_tell: dict[str, None] = {}
        """Machines whose claims have other turns than they were told."""
        self.has_news = False
        """Whether there are tasks, queues or levels that no pass has looked at."""
        self._orders = 0

    # --- what runs -------------------------------------------------------------------------------

    def configured(self, configuration: Configuration) -> None:
        """Take other modes: what runs in queues that were `shared` is not known here yet."""
        self.has_news = True
        self.modes = configuration.queue_modes
        self.rows.configured(configuration.gang.rows_max)
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
        """Add a task that was matched, of a queue with such a mode."""
        seats = list(seats)
        if any(has_all(view, view.calendar.held_by(key)) for view, key in seats):
            return
        task = self._add(queue, level)
        task.row = row
        for view, key in seats:
            self._put(task, key, view, view.calendar.held_by(key))
        task.machines = frozenset(view.name for view, _ in seats)
        self._regard(task)
        if row or task.is_gang:
            self.rows.hold()

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
            seat = task.seats[running.attempt]
            seat.resources = running.when_it_runs
            seat.is_ending &= not running.is_preempted
            self.rows.touch(task)
            return
        if running.reservation is not None:
            return  # what others would get is its booking's
        takes_part = running.queue in self.modes or running.takes_turns
        gives_way = takes_part and not has_all(view, running.resources)
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
        self._put(task, running.attempt, view, running.when_it_runs)
        self._tell(task)  # what its other seats were told
        self._regard(task)
        if running.takes_turns and not task.is_gang and task.standing is Standing.RUNS:
            self._preempt(task)  # it came from a queue that does, as an earlier broker knew

    def _moved(self, task: PreemptibleTask, queue: int) -> None:
        """Let a task go on in another queue, where its time of residence sent it."""
        task.queue = task.level = queue
        self._raised.pop(task, None)
        self._regard(task)

    def _regard(self, task: PreemptibleTask) -> None:
        """Note whether a task takes turns now; one that does not any more stands first."""
        was_in_rows = task.is_gang and task.standing is Standing.RUNS and self._shares_rows(task)
        if not any(seat.is_ending for seat in task.seats.values()):
            task.is_gang = self.modes.get(task.queue) == "gang" and _takes_turns(task)
        self.rows.touch(task)
        if was_in_rows and not task.is_gang:
            self._preempt(task)

    def _shares_rows(self, task: PreemptibleTask) -> bool:
        """Return whether a gang that runs has rows beside its own, by what is known."""
        machines = [seat.view.name for seat in task.seats.values()]
        return not task.turn.is_whole or any(len(self.rows.loads(name)) > 1 for name in machines)

    def dropped(self, key: ClaimKey) -> None:
        """Forget a claim or match that is over."""
        task = self.by_key.pop(key, None)
        if task is None:
            return
        seat = task.seats.pop(key)
        name = seat.view.name
        if isinstance(key, Capability):  # it may be used again, for a task without that turn
            self.to_tell[name] = None
        self.by_machine[name].pop(key, None)
        if not self.by_machine[name]:
            del self.by_machine[name]
        self.rows.left(name, task)
        if not task.seats:
            del self.tasks[task]
            self.standing.pop(task, None)
            self._gathering.pop(task, None)
            self._raised.pop(task, None)
            if task.attempt is not None:
                del self._of_attempt[task.attempt]

    def _add(self, queue: int, level: int) -> PreemptibleTask:
        self._orders += 1
        task = PreemptibleTask(queue, level, self._orders, is_gang=False, since_s=self._now_s)
        self.tasks[task] = None
        if level < queue:
            self._raised[task] = None
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

    # --- standing --------------------------------------------------------------------------------

    def goes_on_before(self, machine: str, queue: int, level: int) -> bool:
        """Return whether what stands there has its cpus before a task that is sent there to wait.

        That counts in its queue again once it runs, whatever its level is while it waits.
        """
        claims = self.by_machine.get(machine)
        if claims is None:
            return False
        level = max(level, queue) if queue in self.modes else level
        return any(
            task.standing is Standing.PREEMPTED and not task.is_stopped and task.level <= level
            for task in claims.values()
        )

    def stands(self, key: ClaimKey) -> bool:
        """Return whether the claim of a task has no cpus at present."""
        task = self.by_key.get(key)
        return task is not None and task.standing is not Standing.RUNS

    @property
    def first_level(self) -> int:
        """Return the highest level of what stands; that of no queue: nothing does."""
        return min((task.level for task in self.standing), default=QUEUE_MAX + 1)

    def stand_aside(self, level: int, starting: Collection[int]) -> None:
        """Free the cpus of what runs below a level, or in stopped queues.

        Rows may have gaps until the machines are settled.
        """
        self.has_news = False
        self.joined.clear()
        for task in list(self._gathering):
            self._give_up_gathered(task)
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
                if task.is_gang:
                    self.rows.touch(task)
                else:
                    self.rows.resize(task)
        self.rows.hold()

    def in_order(self) -> list[PreemptibleTask]:
        """Return what stands, in the order in which it takes its cpus again."""
        return sorted(self.standing, key=lambda task: task.precedence)

    def take_back(self, task: PreemptibleTask, *, is_stopped: bool) -> None:
        """Let a task that stands run again if its cpus are free on all machines; else it stands.

        The caller settles the machines when it has asked so of all.
        """
        was_aside, old_row = task.standing is Standing.ASIDE, task.row
        if was_aside and self.joined and self._is_in_the_way(task):
            task.not_before_s = self._now_s + RETRY_S
        row = None if is_stopped else self._row_for(task)
        if row is not None:
            task.row = row
            self._back(task, has_stood=not was_aside)
        else:
            task.standing, task.turn, task.is_stopped = Standing.PREEMPTED, NEVER, is_stopped
            if was_aside:
                task.since_s = self._now_s
            if not is_stopped and not task.level and self._comes_back(task):
                self._gather(task)
        if row != old_row or not was_aside:
            self._tell(task)

    def _is_in_the_way(self, task: PreemptibleTask) -> bool:
        """Return whether its machine would not grant what was just started beside it.

        Until the next booking there is room for both, but not until their ends. It goes on once
        that is granted, and leaves for the booking.
        """
        for key, seat in task.seats.items():
            calendar = seat.view.calendar
            if seat.view.name in self.joined and key in calendar:
                fitting_s = calendar.fitting_s(Resources(seat.resources.cpus), self._now_s)
                if 0.0 < fitting_s < calendar.end_s(key) - self._now_s:
                    return True
        return False

    def _comes_back(self, task: PreemptibleTask) -> bool:
        """Return whether a task has its cpus on all machines once what runs there has ended."""
        return all(
            not seat.view.is_away
            and (slot := seat.view.calendar.earliest(Resources(seat.resources.cpus), self._now_s))
            and slot.start_s < self._now_s + OPEN_END_S / 2
            for seat in task.seats.values()
        )

    def _gather(self, task: PreemptibleTask) -> None:
        """Keep what is free on its machines for a task that counts in queue 0, and stands.

        Else tasks that follow each other on one machine and another could keep it from them for
        ever. As with reserved heads there is one for each machine: who began first.
        """
        others = (seat.view for other in self._gathering for seat in other.seats.values())
        if not {view.name for view in others}.isdisjoint(s.view.name for s in task.seats.values()):
            return
        left: dict[str, int] = {}
        for seat in task.seats.values():
            view = seat.view
            free_cpus = left.get(view.name, max(0, self.rows.free_beside(view)))
            seat.gathered_cpus = 0 if seat.is_ending else min(seat.resources.cpus, free_cpus)
            left[view.name] = free_cpus - seat.gathered_cpus
        self.rows.resize(task)
        self._gathering[task] = None

    def _give_up_gathered(self, task: PreemptibleTask) -> None:
        del self._gathering[task]
        for seat in task.seats.values():
            seat.gathered_cpus = 0
        self.rows.resize(task)

    def _back(self, task: PreemptibleTask, *, has_stood: bool = True) -> None:
        if task in self._gathering:
            self._give_up_gathered(task)
        task.standing, task.is_stopped = Standing.RUNS, False
        self.standing.pop(task, None)
        if has_stood:
            task.since_s, task.turn = self._now_s, ALWAYS
        if task.is_gang:
            self.rows.touch(task)
        else:
            self.rows.resize(task)

    def clock_changed(self, view: MachineView) -> None:
        """Let a machine take part in time slices, or no more: what took turns there stands."""
        for task in dict.fromkeys(self.by_machine.get(view.name, {}).values()):
            self._regard(task)
        self.rows.changed(view.name)
        self.has_news = bool(self.modes)

    def was_not_taken(self, key: ClaimKey) -> None:
        """Note that a machine had no cpus for a claim that was to run again: all of it stands.

        It may know of something that its broker does not: so nobody asks it again at once.
        """
        task = self.by_key.get(key)
        if task is not None and task.standing is Standing.RUNS:
            self._preempt(task)
            task.not_before_s = self._now_s + RETRY_S

    def freed(self, machine: str) -> None:
        """Note that a claim has ended there: what the machine had no cpus for may try again."""
        for task in self.by_machine.get(machine, {}).values():
            task.not_before_s = -inf

    def does_not_stand(self, key: ClaimKey, row: int, *, takes_turns: bool) -> None:
        """Note that a machine does not freeze a claim that is to stand: it ends soon.

        What takes turns there keeps its own, which is of `row`, whatever its queue is now.
        """
        task = self.by_key[key]
        seat = task.seats[key]
        if not seat.is_ending:
            seat.is_ending = self.has_news = True
            task.is_gang = takes_turns
            if takes_turns:
                task.row = row
            self.rows.touch(task)

    def relieve(self, view: MachineView) -> None:
        """Let tasks stand that were to run on a machine where others have their cpus meanwhile."""
        claims = self.by_machine.get(view.name, {})
        if view.calendar.free.cpus < 0:
            for task in dict.fromkeys(claims.values()):
                if task in self._gathering:
                    self._give_up_gathered(task)
            self.rows.hold()
        running = {task: None for task in claims.values() if task.standing is Standing.RUNS}
        for task in sorted(running, key=lambda task: task.precedence, reverse=True):
            if view.calendar.free.cpus >= 0:
                return
            if task.is_granted:
                self._preempt(task)
                self.rows.hold()

    def _preempt(self, task: PreemptibleTask) -> None:
        task.standing, task.turn, task.since_s = Standing.PREEMPTED, NEVER, self._now_s
        self.standing[task] = None
        self.has_news = True
        self.rows.touch(task)
        self._tell(task)

    def age(self, now_s: float) -> bool:
        """Let what has stood long enough count in a higher queue, and what has run in its own.

        Returns whether any does, or whether any may run again that a machine had no cpus for.
        """
        may_run = any(self._now_s < task.not_before_s <= now_s for task in self.standing)
        self._now_s = now_s
        due = [task for task in self._changing() if self._due_s(task) <= now_s]
        for task in due:
            is_standing = task.standing is Standing.PREEMPTED
            task.level = task.level - 1 if is_standing else task.queue
            task.since_s = now_s
            if task.level < task.queue:
                self._raised[task] = None
            else:
                self._raised.pop(task, None)
        return may_run or bool(due)

    @property
    def next_s(self) -> float:
        """Return when the next of those is due; infinite: none is."""
        return min(map(self._due_s, self._changing()), default=inf)

    def _changing(self) -> Iterable[PreemptibleTask]:
        """Return the tasks of which the level may change."""
        return {**self.standing, **self._raised}

    def _due_s(self, task: PreemptibleTask) -> float:
        is_standing = task.standing is Standing.PREEMPTED
        may_change = task.level > 0 if is_standing else task.level < task.queue
        due_s = task.since_s + self._age_s if may_change else inf
        return min(due_s, task.not_before_s) if task.not_before_s > self._now_s else due_s

    def fits(self, task: PreemptibleTask) -> bool:
        """Return whether a task that stands could take its cpus now."""
        return self._row_for(task) is not None

    def may_run(self, task: PreemptibleTask) -> bool:
        """Return whether a task stands though it could take its cpus now."""
        stands = task.standing is Standing.PREEMPTED and not task.is_stopped
        return stands and self.fits(task)

    def _row_for(self, task: PreemptibleTask) -> int | None:
        """Return a row in which all of a task fits now; None: there is none."""
        if self._now_s < task.not_before_s:
            return None
        needs = [
            (seat.view, seat.resources.cpus - seat.gathered_cpus)
            for seat in task.seats.values()
            if not seat.is_ending
        ]
        if all(cpus <= self.rows.free_beside(view) for view, cpus in needs):
            return task.row if task.row < self.rows.rows_max else 0
        if not task.is_gang:
            return None
        rows = [task.row, *(row for row in range(self.rows.rows_max) if row != task.row)]
        for row in rows:
            if all(cpus <= self.rows.free_cpus(view, row, task.level) for view, cpus in needs):
                return row
        return None

    # --- rows ------------------------------------------------------------------------------------

    def free_for(self, key: ClaimKey, view: MachineView) -> int:
        """Return the cpus that are free for more of a claim: of what takes turns, in its row."""
        inside = view.calendar.inside(key) if view.calendar.bookings else None
        if inside is not None:
            return view.calendar.left_in(inside).cpus
        task = self.by_key.get(key) if self.tasks else None
        if task is None or not task.is_gang or task.standing is not Standing.RUNS:
            return view.calendar.free.cpus
        return self.rows.free_cpus(view, task.row, task.level)

    def settle_machines(self) -> bool:
        """Compute turns where anything changed, and let calendars hold what claims need then.

        Return whether any task was moved into another row.
        """
        has_moved = False
        self.rows.hold()
        while self.rows.unsettled:
            settled = self.rows.settle()
            has_moved |= settled.has_moved
            for task in settled.turned:
                self._tell(task)
            for task in settled.without_row:
                self._preempt(task)
        return has_moved

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
        self.rows.check()


def _takes_turns(task: PreemptibleTask) -> bool:
    """Return whether it has a limit of memory, and all its machines know the time."""
    return all(
        seat.resources.memory_bytes > 0 and (seat.view.has_clock or not seat.view.mints)
        for seat in task.seats.values()
    )

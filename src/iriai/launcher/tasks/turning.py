"""Tasks that take turns: lent to the process that switches, or stopped here by signals.

Reasons (spec 012) and the end of a task outrank its turns: while it has reasons the launcher keeps
it frozen itself, and what is being ended takes no turns any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from iriai.launcher.contract.messages import SetCycle
from iriai.launcher.tasks.freezing import TaskFreezing
from iriai.launcher.tasks.limit_monitor import LimitMonitor
from iriai.launcher.tasks.parts import LauncherParts
from iriai.launcher.tasks.suspension import TaskSuspension, TaskTurns
from iriai.launcher.tasks.task import RunningTask
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.ids import AttemptId
from iriai.model.time_slices import NO_CYCLES, Cycles, SliceCycle, masks_of
from iriai.system.clock import steady_s

SCAN_S = 0.5
"""Between two looks at what stands by signals: others can continue it, and it may have forked."""


class TaskTurning:
    """The cycle that the daemon has ordered, and those that take turns in it."""

    is_over = False
    """It is the subject of its timer."""

    def __init__(
        self, parts: LauncherParts, tasks: Tasks, limits: LimitMonitor, freezing: TaskFreezing
    ) -> None:
        self._parts = parts
        self._switcher = parts.switcher
        self._tasks = tasks
        self._limits = limits
        self._freezing = freezing
        self._number = -1
        self._cycles: Cycles = NO_CYCLES
        self._named: dict[AttemptId, int] = {}
        self._by_signals: dict[AttemptId, RunningTask] = {}
        """Those without a freezer, which the launcher switches itself."""
        self._rings_s = math.inf
        """When it looks at those again."""

    def take(self, order: SetCycle) -> dict[AttemptId, TaskTurns] | None:
        """Have what runs take turns as ordered; return the turns of those that do not run.

        None: an order that is as new came before, and nothing has changed.
        """
        if order.number <= self._number:
            return None
        now_s = steady_s()
        self._number = order.number
        row_0_s = min(order.as_of_s, now_s) - order.since_row_0_s
        cycle = SliceCycle(order.quantum_s, order.rows, row_0_s)
        self._cycles = self._cycles.followed_by(cycle, now_s)
        before, self._named = self._named, masks_of(order.turns) if cycle.takes_turns else {}
        self._switcher.follow(self._cycles)
        self._release([each for each in before if each not in self._named], now_s)
        unknown, fresh = dict[AttemptId, TaskTurns](), list[RunningTask]()
        for attempt, mask in self._named.items():
            task = self._tasks.get(attempt)
            if task is None:
                unknown[attempt] = TaskTurns(mask, self._cycles)
            elif not task.is_ending and self._is_fresh(task, mask, now_s):
                fresh.append(task)
        if fresh:
            self._begin(fresh)
        self._switcher.flush()
        self._look(now_s)
        return unknown

    def go_on(self, task: RunningTask, turns: TaskTurns, now_s: float) -> None:
        """Have a task run in its turn from now on, which is frozen whole, and has no reasons."""
        file = task.container.lend_freezer()
        if file is not None:
            turns.path, turns.stands = file.path, False
            self._switcher.lend(file, turns.mask)
            return
        turns.stands = True
        self._tasks.hold_ranks(task)
        self._by_signals[task.attempt] = task
        self._look(now_s)

    def pause(self, task: RunningTask) -> None:
        """Take a task that has reasons from now on out of the turns of others."""
        turns = None if task.suspension is None else task.suspension.turns
        if turns is None:
            return
        if turns.path:
            self._switcher.withdraw(turns.path)
        turns.path, turns.stands = "", False
        self._by_signals.pop(task.attempt, None)

    # --- within ----------------------------------------------------------------------------------

    def _is_fresh(self, task: RunningTask, mask: int, now_s: float) -> bool:
        """Give a task its turns; return whether it had none, and has to be frozen first."""
        suspension = task.suspension
        if suspension is None:
            suspension = task.suspension = TaskSuspension()
        had = suspension.turns
        turns = TaskTurns(mask, self._cycles)
        if had is not None:
            turns.path, turns.stands = had.path, had.stands
        suspension.give_turns(turns, now_s)
        self._limits.turns_changed(task, now_s)
        if task.is_ending or suspension.is_frozen:
            return False
        if turns.path:
            self._switcher.change(turns.path, mask)
        return had is None

    def _begin(self, fresh: list[RunningTask]) -> None:
        """Freeze tasks that run, whole, and have them take turns from there."""
        self._freezing.freeze(fresh)
        now_s = steady_s()
        for task in fresh:
            turns = None if task.suspension is None else task.suspension.turns
            if turns is not None and not task.is_ending:
                self.go_on(task, turns, now_s)

    def _release(self, attempts: Iterable[AttemptId], now_s: float) -> None:
        """Let those go on that take no turns any more."""
        tasks = [task for each in attempts if (task := self._tasks.get(each)) is not None]
        turns = [each.suspension.turns for each in tasks if each.suspension is not None]
        self._switcher.withdraw(*[each.path for each in turns if each is not None and each.path])
        for task in tasks:
            suspension = task.suspension
            if suspension is None or suspension.turns is None:
                continue
            suspension.give_turns(None, now_s)
            self._by_signals.pop(task.attempt, None)
            if not task.is_ending and not suspension.is_frozen:
                self._thaw(task, now_s)
                self._limits.turns_changed(task, now_s)

    def _thaw(self, task: RunningTask, now_s: float) -> None:
        try:
            task.container.thaw(self._freezing.also(task), now_s)
        except Exception as error:  # noqa: BLE001 - it costs this attempt alone
            self._freezing.give_up(task, "thawing", error, now_s)
            return
        if task.container.freezes_by_signals:
            self._tasks.resume_ranks(task)

    # --- without a freezer -----------------------------------------------------------------------

    def _look(self, now_s: float) -> None:
        """Stop and continue those whose turn is over, or begins, and plan the next look."""
        stops, has_standing = list[RunningTask](), False
        for attempt, task in list(self._by_signals.items()):
            turns = None if task.suspension is None else task.suspension.turns
            if turns is None or task.is_over or task.is_ending:
                del self._by_signals[attempt]
            elif not turns.is_turn(now_s):
                has_standing = True
                stops.append(task)  # also what stands: others may have continued it
                if not turns.stands:
                    turns.stands = True
                    self._tasks.hold_ranks(task)
            elif turns.stands:
                turns.stands = False
                self._thaw(task, now_s)
        if stops:
            self._freezing.freeze(stops)
        if self._by_signals:
            due_s = self._cycles.next_s(now_s)
            self._ring(min(due_s, now_s + SCAN_S) if has_standing else due_s, now_s)

    def _ring(self, due_s: float, now_s: float) -> None:
        if due_s == math.inf or now_s < self._rings_s <= due_s:
            return
        self._rings_s = due_s
        self._parts.timers.add(due_s, self, self._look)

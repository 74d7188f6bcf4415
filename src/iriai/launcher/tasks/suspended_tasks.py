"""Freezes and thaws tasks as they are ordered, and sees that what is frozen stays so.

The end of a task outranks its suspension: what is being ended is thawed for its grace, and orders
about it change nothing any more. Tasks that are never suspended have nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from iriai.launcher.containment.container import Containment
from iriai.launcher.contract.messages import FreezeOrder, FreezeState, SetCycle
from iriai.launcher.system.crash_points import crash_point
from iriai.launcher.tasks.freezing import TaskFreezing
from iriai.launcher.tasks.limit_monitor import LimitMonitor
from iriai.launcher.tasks.parts import LauncherParts
from iriai.launcher.tasks.suspension import TaskSuspension
from iriai.launcher.tasks.task import RunningTask
from iriai.launcher.tasks.tasks import Tasks
from iriai.launcher.tasks.turning import TaskTurning
from iriai.model.ids import AttemptId
from iriai.system.clock import steady_s

if TYPE_CHECKING:
    from iriai.launcher.tasks.reclaim import MemoryReclaim

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.1
"""Between two looks whether it is frozen; each pause is twice the one before."""
LATE_S = 5.0
"""Until the daemon is told that the freezer has not reported it."""
SCAN_S = 0.5
"""Between two looks at a task frozen by signals, which others can continue."""


class SuspendedTasks:
    """The tasks that were ever ordered to freeze."""

    def __init__(
        self,
        parts: LauncherParts,
        tasks: Tasks,
        limits: LimitMonitor,
        freezing: TaskFreezing,
        turns: TaskTurning,
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._limits = limits
        self._freezing = freezing
        self._turns = turns
        self._owner = parts.owner
        self._memory: MemoryReclaim | None = None
        """None: no owner wanted any back."""
        self.is_owner_here = False
        """Whether what starts is frozen for the owner, unless it is exempt: `prepare` and `started`
        are called then, and while there are any in `waiting`."""
        self.waiting: dict[AttemptId, TaskSuspension] = {}
        """Those that have no process yet, and have had an order, or a turn."""
        self.news: dict[AttemptId, FreezeState] = {}
        """What the daemon has not been told."""

    def take(self, orders: Iterable[FreezeOrder], is_queued: Callable[[AttemptId], bool]) -> None:
        """Carry out orders; `is_queued` says of an attempt that it has no process yet.

        Those of unknown attempts are ignored, and those that are not newer than the last.
        """
        now_s, frozen = steady_s(), list[RunningTask]()
        for order in orders:
            task = self._tasks.get(order.attempt)
            if task is not None:
                if self._is_to_freeze(task, order, now_s):
                    frozen.append(task)
            elif is_queued(order.attempt):
                suspension = self.waiting.setdefault(order.attempt, TaskSuspension())
                if suspension.take(order, now_s):
                    self.news[order.attempt] = suspension.state(order.attempt)
        if frozen:
            self._freeze(frozen)

    def follow_owner(self) -> None:
        """Freeze and thaw what runs as the standing order of the owner says now."""
        self.is_owner_here = self._owner.is_given
        now_s, frozen = steady_s(), list[RunningTask]()
        for task in self._tasks:
            is_given, suspension = self._owner.keeps(task.attempt), task.suspension
            if suspension is None:
                if not is_given:
                    continue
                suspension = task.suspension = TaskSuspension()
            is_changed = suspension.give_owner(now_s, is_given=is_given)
            if is_changed and not task.is_ending and self._follow(task, suspension, now_s):
                frozen.append(task)
        if frozen:
            self._freeze(frozen)
        for attempt in self._owner.reclaimed:
            stands = self._tasks.get(attempt)
            if stands is not None and not stands.is_ending:
                self._give_back(stands)

    def _give_back(self, task: RunningTask) -> None:
        """Have the owner get the memory of a task that stands, once for each time that it does."""
        suspension = task.suspension
        if suspension is None or suspension.reclaim is not None:
            return
        if suspension.is_frozen and suspension.is_complete:
            if self._memory is None:
                from iriai.launcher.tasks.reclaim import MemoryReclaim

                self._memory = MemoryReclaim()
            suspension.reclaim = self._memory.start(task.attempt, task.container)

    def take_cycle(self, order: SetCycle) -> None:
        """Have those that are named take turns; those that have no process yet once they start."""
        unknown = self._turns.take(order)
        if unknown is None:
            return
        for attempt in [each for each in self.waiting if each not in unknown]:
            suspension = self.waiting[attempt]
            suspension.turns = None
            if suspension.number < 0:
                del self.waiting[attempt]
        for attempt, turns in unknown.items():
            self.waiting.setdefault(attempt, TaskSuspension()).turns = turns

    def states(self) -> tuple[FreezeState, ...]:
        """Return the state of all that run, for a daemon that has connected."""
        self.news.clear()
        return tuple(
            task.suspension.state(task.attempt)
            for task in self._tasks
            if task.suspension is not None and task.suspension.is_to_tell and not task.is_ending
        )

    def drain_news(self) -> list[FreezeState]:
        """Return what has changed since the last call, of tasks that are not being ended."""
        news, self.news = self.news, {}
        if news:
            crash_point("before-frozen-told")
        return list(news.values())

    # --- starts ----------------------------------------------------------------------------------

    def prepare(self, attempt: AttemptId, container: Containment) -> None:
        """Have the processes of an attempt freeze as they start, if there are reasons."""
        suspension = self.waiting.get(attempt)
        has_own = suspension is not None and (suspension.reasons or suspension.turns is not None)
        if has_own or self._owner.keeps(attempt):
            container.freeze((), steady_s())

    def started(self, task: RunningTask) -> None:
        """Take in that an attempt was started; it is frozen if there are reasons."""
        suspension, by_owner = self.waiting.pop(task.attempt, None), self._owner.keeps(task.attempt)
        if suspension is None:
            if not by_owner:
                return
            suspension = TaskSuspension()
        task.suspension, suspension.by_owner = suspension, by_owner
        if not suspension.reasons:
            if suspension.turns is not None:
                suspension.turns.since_s = task.started_s
                self._turns.go_on(task, suspension.turns, steady_s())
            return
        suspension.freeze(task.started_s)
        self._begin_looking(task, suspension, steady_s())

    def drop(self, attempt: AttemptId) -> None:
        """Forget an attempt that is not started."""
        self.waiting.pop(attempt, None)
        self.news.pop(attempt, None)

    # --- within ----------------------------------------------------------------------------------

    def _is_to_freeze(self, task: RunningTask, order: FreezeOrder, now_s: float) -> bool:
        """Take in an order about a task that runs, and thaw it if that is due."""
        suspension = task.suspension
        if suspension is None:
            suspension = task.suspension = TaskSuspension()
        if not suspension.take(order, now_s) or task.is_ending:
            return False
        return self._follow(task, suspension, now_s)

    def _follow(self, task: RunningTask, suspension: TaskSuspension, now_s: float) -> bool:
        """Thaw a task that has no reasons any more; return whether it is to be frozen."""
        if suspension.is_frozen == bool(suspension.reasons):
            if suspension.is_told:
                self._tell(task, suspension)
            return False
        if suspension.reasons:
            suspension.freeze(now_s)
            self._turns.pause(task)
            return True
        self._thaw(task, suspension, now_s)
        return False

    def _thaw(self, task: RunningTask, suspension: TaskSuspension, now_s: float) -> None:
        try:
            if suspension.turns is None:
                task.container.thaw(self._freezing.also(task), now_s)
            else:
                self._turns.go_on(task, suspension.turns, now_s)
        except Exception as error:  # noqa: BLE001 - it costs this attempt alone
            self._freezing.give_up(task, "thawing", error, now_s)
            return
        suspension.thaw(now_s)
        self._tell(task, suspension)
        if suspension.turns is None or not task.container.freezes_by_signals:
            self._tasks.resume_ranks(task)
        self._limits.resume(task, now_s)

    def _freeze(self, tasks: list[RunningTask]) -> None:
        """Freeze `tasks`, all in turn, since what is looked at serves all of them."""
        crash_point("before-freeze")
        self._freezing.freeze(tasks)
        crash_point("after-freeze")
        now_s = steady_s()
        for task in tasks:
            if task.suspension is not None and not task.is_ending:
                self._begin_looking(task, task.suspension, now_s)

    def _begin_looking(self, task: RunningTask, suspension: TaskSuspension, now_s: float) -> None:
        """Start nothing more of a task that was frozen, and see whether it is."""
        self._tasks.hold_ranks(task)
        try:
            self._look(task, suspension.freezes, FIRST_PAUSE_S, now_s)
        except Exception as error:  # noqa: BLE001 - it costs this attempt alone
            self._freezing.give_up(task, "looking at", error, now_s)

    def _look(self, task: RunningTask, freeze: int, pause_s: float, now_s: float) -> None:
        """See whether a task is frozen, and tell it; look again until it is."""
        suspension, container = task.suspension, task.container
        if suspension is None or suspension.freezes != freeze or task.is_ending:
            return
        if suspension.since_s is None:
            return
        also = self._freezing.also(task)
        if container.freezes_by_signals:  # some were continued, or have just been forked
            container.freeze(also, now_s)
        is_frozen = container.is_frozen(also, now_s)
        if is_frozen and not suspension.is_complete:
            suspension.is_complete = True
            self._tell(task, suspension)
        elif not suspension.is_told and now_s >= suspension.since_s + LATE_S:
            self._tell(task, suspension)
        if is_frozen and not container.freezes_by_signals:
            return
        due_s = now_s + pause_s
        if is_frozen:  # at the same moments for all tasks, which then share one look
            due_s = (math.floor(now_s / SCAN_S) + 1) * SCAN_S
        longer_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._parts.timers.add(
            due_s, task, lambda late_s: self._look(task, freeze, longer_s, late_s)
        )

    def _tell(self, task: RunningTask, suspension: TaskSuspension) -> None:
        suspension.is_told = True
        self.news[task.attempt] = suspension.state(task.attempt)

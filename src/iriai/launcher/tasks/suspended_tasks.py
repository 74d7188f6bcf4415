"""Freezes and thaws tasks as they are ordered, and sees that what is frozen stays so.

The end of a task outranks its suspension: what is being ended is thawed for its grace, and orders
about it change nothing any more. Tasks that are never suspended have nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from iriai.launcher.containment.container import Containment
from iriai.launcher.contract.messages import FreezeOrder, FreezeState
from iriai.launcher.system.crash_points import crash_point
from iriai.launcher.tasks.limit_monitor import LimitMonitor
from iriai.launcher.tasks.parts import ENDED, LauncherParts
from iriai.launcher.tasks.suspension import TaskSuspension
from iriai.launcher.tasks.task import LimitExceeded, RunningTask
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.system.clock import steady_s

LOOKS_MAX = 64
"""At the processes of a task for one freeze; each may find some that were forked meanwhile."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.1
"""Between two looks whether it is frozen; each pause is twice the one before."""
LATE_S = 5.0
"""Until the daemon is told that the freezer has not reported it."""
SCAN_S = 0.5
"""Between two looks at a task frozen by signals, which others can continue."""
KEEPS_FORKING = LimitExceeded(
    EndCause.FAILED,
    "it could not be suspended: its processes forked others faster than they could be stopped "
    f"(LOOKS_MAX = {LOOKS_MAX})",
)


class SuspendedTasks:
    """The tasks that were ever ordered to freeze."""

    def __init__(self, parts: LauncherParts, tasks: Tasks, limits: LimitMonitor) -> None:
        self._parts = parts
        self._tasks = tasks
        self._limits = limits
        self.waiting: dict[AttemptId, TaskSuspension] = {}
        """Those that have no process yet."""
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

    def states(self) -> tuple[FreezeState, ...]:
        """Return the state of all that run, for a daemon that has connected."""
        self.news.clear()
        return tuple(
            task.suspension.state(task.attempt)
            for task in self._tasks
            if task.suspension is not None and not task.is_ending
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
        if suspension is not None and suspension.reasons:
            container.freeze((), steady_s())

    def started(self, task: RunningTask) -> None:
        """Take in that an attempt was started; it is frozen if there are reasons."""
        suspension = self.waiting.pop(task.attempt, None)
        if suspension is None:
            return
        task.suspension = suspension
        if not suspension.reasons:
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
        if suspension.is_frozen == bool(order.reasons):
            if suspension.is_told:
                self._tell(task, suspension)
            return False
        if order.reasons:
            suspension.freeze(now_s)
            return True
        self._thaw(task, suspension, now_s)
        return False

    def _thaw(self, task: RunningTask, suspension: TaskSuspension, now_s: float) -> None:
        try:
            task.container.thaw(self._also(task), now_s)
        except Exception as error:  # noqa: BLE001 - it costs this attempt alone
            self._give_up(task, "thawing", error, now_s)
            return
        suspension.thaw(now_s)
        self._tell(task, suspension)
        self._tasks.resume_ranks(task)
        self._limits.resume(task, now_s)

    def _freeze(self, tasks: list[RunningTask]) -> None:
        """Freeze `tasks`, all in turn, since what is looked at serves all of them."""
        crash_point("before-freeze")
        left = tasks
        for _ in range(LOOKS_MAX):
            since_s = steady_s()
            left = [task for task in left if self._has_more(task, since_s)]
            if not left:
                break
        crash_point("after-freeze")
        now_s = steady_s()
        for task in left:
            self._tasks.end(task, KEEPS_FORKING, 0.0, now_s)
        for task in tasks:
            if task.suspension is not None and not task.is_ending:
                self._begin_looking(task, task.suspension, now_s)

    def _begin_looking(self, task: RunningTask, suspension: TaskSuspension, now_s: float) -> None:
        """Start nothing more of a task that was frozen, and see whether it is."""
        self._tasks.hold_ranks(task)
        try:
            self._look(task, suspension.freezes, FIRST_PAUSE_S, now_s)
        except Exception as error:  # noqa: BLE001 - it costs this attempt alone
            self._give_up(task, "looking at", error, now_s)

    def _has_more(self, task: RunningTask, since_s: float) -> bool:
        """Freeze what is there; return whether another look may find more."""
        try:
            return not task.container.freeze(self._also(task), since_s)
        except Exception as error:  # noqa: BLE001 - it costs this attempt alone
            self._give_up(task, "freezing", error, since_s)
            return False

    def _look(self, task: RunningTask, freeze: int, pause_s: float, now_s: float) -> None:
        """See whether a task is frozen, and tell it; look again until it is."""
        suspension, container = task.suspension, task.container
        if suspension is None or suspension.freezes != freeze or task.is_ending:
            return
        if suspension.since_s is None:
            return
        also = self._also(task)
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

    def _also(self, task: RunningTask) -> list[int]:
        """Return the main processes of a task and of its steps: some may not have joined it."""
        return [*task.unreaped, *self._tasks.steps.pids_of(task.attempt)]

    def _give_up(self, task: RunningTask, doing: str, error: Exception, now_s: float) -> None:
        words = self._parts.defects.record(f"{doing} {task.attempt}", error, ENDED)
        self._tasks.give_up(task, words, now_s)

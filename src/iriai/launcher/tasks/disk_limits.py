"""Limits of disk: what a task's directory takes is read from its quota, or found by walks.

Walks are made by one thread, a part of each in turn, with pauses between parts: together they take
at most a fifth of a cpu, however many files there are, and for half of the time no disk.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from iriai.launcher.contract.messages import Enforcement
from iriai.launcher.directories.disk_use import DiskWalk, Uncountable
from iriai.launcher.directories.scratch import Scratch
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.task import LimitExceeded, RunningTask, disk_limit
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.state import EndCause
from iriai.system.clock import steady_s

log = logging.getLogger(__name__)

QUOTA_SAMPLE_S = 0.5
"""Between two looks at a quota: one system call."""
WALK_INTERVAL_S = 2.0
"""From the end of a walk to the next one of the same task. Longer: more is written above a limit;
shorter: more time is spent in walks where there are few files."""
QUOTA_WALK_INTERVAL_S = 60.0
"""The same beside a quota: the owner of a file may count it as another project's."""
WALK_PART = 0.2
"""Of one cpu, the most that all walks take; for at least half of the time they wait for no disk."""
STUCK_S = 60.0
"""A part of a walk that takes longer waits for a file system that does not answer."""
STUCK_LOOK_S = 5.0
"""Between two looks at that, where a walk is not over by then."""


class WalkOrder:
    """A walk that was asked for, and what came out of it."""

    def __init__(self, task: RunningTask) -> None:
        """Raises OSError."""
        self.task = task
        self.walk = DiskWalk(task.scratch.fd)
        self.problem = ""
        """Why it has no result; empty: it has, or is not through."""
        self.is_uncountable = False
        self.is_over = False

    def go_on(self) -> bool:
        """Do the next part; return whether it is over: through, or too much was found."""
        most_bytes = self.task.spec.resources.disk_bytes - self.task.script_bytes
        try:
            is_through = self.task.is_over or self.walk.go_on()
            if not is_through and self.walk.used_bytes <= most_bytes:
                return False
        except Uncountable as problem:
            self.problem, self.is_uncountable = str(problem), True
        except OSError as error:
            self.problem = error.strerror or str(error)
        self.walk.close()
        self.is_over = True
        return True


class Walker:
    """One thread that makes walks, started with the first."""

    def __init__(self) -> None:
        self.done_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when walks are over."""
        self._changed = threading.Condition()
        self._waiting: deque[WalkOrder] = deque()
        self._done: deque[WalkOrder] = deque()
        self._thread: threading.Thread | None = None
        self._at: tuple[WalkOrder, float] | None = None
        """What the thread works on, and since when."""

    def add(self, order: WalkOrder) -> None:
        """Make one more walk."""
        with self._changed:
            self._waiting.append(order)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self) -> list[WalkOrder]:
        """Return the walks that are over since the last call."""
        try:
            os.eventfd_read(self.done_fd)
        except BlockingIOError:
            return []
        with self._changed:
            found = list(self._done)
            self._done.clear()
        return found

    def give_up_stuck(self, now_s: float) -> RunningTask | None:
        """Return the task whose walk does not go on, and leave the thread to it; None: none is."""
        with self._changed:
            if self._at is None or now_s - self._at[1] < STUCK_S:
                return None
            task = self._at[0].task
            self._at = self._thread = None
            if self._waiting:
                self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
                self._thread.start()
            return task

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._thread is not me)
                if self._thread is not me:
                    return
                order = self._waiting.popleft()
                self._at = (order, steady_s())
            begun_s, begun_cpu_s = time.monotonic(), time.thread_time()
            is_over = order.go_on()
            rest_s = (time.thread_time() - begun_cpu_s) * (1.0 / WALK_PART - 1.0)
            rest_s = max(rest_s, time.monotonic() - begun_s)
            with self._changed:
                if self._thread is not me:  # another one took over, and the task has been ended
                    order.walk.close()
                    return
                self._at = None
                (self._done if is_over else self._waiting).append(order)
            if is_over:
                os.eventfd_write(self.done_fd, 1)
            time.sleep(rest_s)


class DiskLimits:
    """Ends tasks whose directory and script take more disk than they may."""

    def __init__(
        self,
        tasks: Tasks,
        timers: Timers,
        call_when_readable: Callable[[int, Callable[[], None]], None],
    ) -> None:
        """`call_when_readable(fd, action)` makes the loop wait for walks."""
        self._tasks = tasks
        self._timers = timers
        self._call_when_readable = call_when_readable
        self._walker: Walker | None = None

    def begin(self, task: RunningTask, now_s: float) -> None:
        """Watch the disk of `task`, which has been started and has such a limit."""
        if self._walker is None:
            self._walker = Walker()
            self._call_when_readable(self._walker.done_fd, self._walks_over)
        if task.quota is not None:
            self._timers.add(now_s + QUOTA_SAMPLE_S, task, lambda at_s: self._read(task, at_s))
        self._plan_walk(task, now_s)

    def _plan_walk(self, task: RunningTask, now_s: float) -> None:
        interval_s = WALK_INTERVAL_S if task.quota is None else QUOTA_WALK_INTERVAL_S
        self._timers.add(now_s + interval_s, task, lambda at_s: self._walk(task, at_s))

    def _read(self, task: RunningTask, now_s: float) -> None:
        """Look at the quota of a task."""
        if task.kill_at_s is not None or task.quota is None:
            return
        try:
            self._used(task, task.quota.used_bytes(), now_s)
        except OSError as error:
            log.warning("the quota of %s cannot be read: %s", task.attempt, error.strerror)
            return
        self._timers.add(now_s + QUOTA_SAMPLE_S, task, lambda at_s: self._read(task, at_s))

    def _walk(self, task: RunningTask, now_s: float) -> None:
        if task.kill_at_s is not None or self._walker is None:
            return
        try:
            order = WalkOrder(task)
        except OSError as error:
            log.warning("the disk of %s was not counted: %s", task.attempt, error.strerror)
            self._plan_walk(task, now_s)
            return
        self._walker.add(order)
        self._look_later(order, now_s + STUCK_S)

    def _look_later(self, order: WalkOrder, at_s: float) -> None:
        self._timers.add(at_s, order.task, lambda now_s: self._look_for_stuck(order, now_s))

    def _look_for_stuck(self, order: WalkOrder, now_s: float) -> None:
        if order.is_over:
            return
        stuck = None if self._walker is None else self._walker.give_up_stuck(now_s)
        if stuck is not None:
            words = f"the file system of its files did not answer for {STUCK_S:g} s"
            self._end(stuck, words, now_s)
        if stuck is not order.task:
            self._look_later(order, now_s + STUCK_LOOK_S)

    def _walks_over(self) -> None:
        now_s = steady_s()
        for order in self._walker.drain() if self._walker is not None else ():
            task = order.task
            if task.is_over or task.kill_at_s is not None:
                continue
            if order.is_uncountable:
                self._end(task, f"its files cannot be counted: {order.problem}", now_s)
                continue
            if order.problem:
                log.warning("the disk of %s was not counted: %s", task.attempt, order.problem)
            else:
                self._used(task, order.walk.used_bytes, now_s)
            self._plan_walk(task, now_s)

    def _used(self, task: RunningTask, used_bytes: int, now_s: float) -> None:
        """End a task that takes too much."""
        task.disk_peak_bytes = max(task.disk_peak_bytes, used_bytes + task.script_bytes)
        if task.disk_peak_bytes > task.spec.resources.disk_bytes:
            self._tasks.end(task, disk_limit(task.spec, task.disk_peak_bytes), 0.0, now_s)

    def _end(self, task: RunningTask, words: str, now_s: float) -> None:
        self._tasks.end(task, LimitExceeded(EndCause.DISK_LIMIT, words), 0.0, now_s)


def disk_enforcement(scratch: Scratch) -> Enforcement:
    """Return the row for `doctor`."""
    refusal = scratch.quota_refusal()
    if not refusal:
        return Enforcement("disk", "project quota", f"read every {QUOTA_SAMPLE_S:g} s")
    return Enforcement("disk", f"walks every {WALK_INTERVAL_S:g} s", refusal)

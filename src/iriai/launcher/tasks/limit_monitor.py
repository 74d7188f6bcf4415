"""Limits of running tasks: timers, samples, and the kernel's events."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from iriai.launcher.containment.container import Containment, Use
from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.disk_limits import DiskLimits
from iriai.launcher.tasks.task import (
    LimitExceeded,
    RunningTask,
    crossed,
    is_polled,
    memory_limit,
    next_sample_s,
    time_limit,
)
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.state import EndCause
from iriai.system.clock import steady_s

OVER = LimitExceeded(
    EndCause.LOST,
    "its lease expired: its machine had no contact for too long with the job's home, which may "
    "have restarted it elsewhere",
)


class LeaseTimers:
    """Ends tasks whose lease has expired.

    The home starts a task again elsewhere once the lease has expired for it, which is later than it
    expires here (docs/spec/002, section 2). So the end must not depend on a daemon that may be
    stopped. Leases are checked before anything is started, also after this process was stopped or
    the machine slept: the clock goes on in sleep.
    """

    def __init__(self, tasks: Tasks, timers: Timers) -> None:
        self._tasks = tasks
        self._timers = timers
        self._renewed_s: dict[str, float] = {}
        """By home: the moment on the steady clock from which the leases of all its attempts
        count."""

    def renew(self, home: str, asked_s: float) -> None:
        """Count the leases of all attempts of `home` from `asked_s` on, when it was asked."""
        self._renewed_s[home] = max(asked_s, self._renewed_s.get(home, asked_s))

    def end_s(self, order: StartOrder) -> float | None:
        """Return when the lease of an attempt expires on the steady clock; None: it has none."""
        if order.lease_s is None:
            return None
        since_s = max(order.leased_s, self._renewed_s.get(order.attempt.home, order.leased_s))
        return since_s + order.lease_s

    def may_start(self, order: StartOrder, now_s: float) -> bool:
        """Return whether the lease in the order has not expired.

        Later renewals do not count: one may have come after it expired.
        """
        return order.lease_s is None or now_s < order.leased_s + order.lease_s

    def begin(self, task: RunningTask, order: StartOrder) -> None:
        """Watch the lease of `task`, which has been started."""
        end_s = self.end_s(order)
        if end_s is not None:
            self._timers.add(end_s, task, lambda now_s: self._check(task, order, now_s))

    def _check(self, task: RunningTask, order: StartOrder, now_s: float) -> None:
        end_s = self.end_s(order)
        if end_s is None or now_s < end_s:
            self.begin(task, order)
        else:
            self._tasks.end(task, OVER, 0.0, now_s)


ROUNDING_S = 1e-6
"""What sums of moments may be short of a limit."""
CallWhenReadable = Callable[[int, Callable[[], None]], None]


class LimitMonitor:
    """Ends tasks that cross a limit."""

    def __init__(
        self,
        tasks: Tasks,
        timers: Timers,
        call_when_readable: CallWhenReadable,
        disk: DiskLimits,
    ) -> None:
        """`call_when_readable(fd, action)` makes the loop wait for an alarm."""
        self._tasks = tasks
        self._timers = timers
        self._call_when_readable = call_when_readable
        self._disk = disk
        self._machine_cpus = os.cpu_count() or 1
        self._alarms: dict[int, Containment] = {}

    def begin(self, task: RunningTask) -> None:
        """Watch the limits of `task`, which has been started."""
        spec = task.spec
        if spec.time_limit_s is not None:
            self._await_time_limit(task, task.started_s + spec.time_limit_s)
        if spec.cpu_limit_s is not None or is_polled(spec, task.container):
            self._plan_sample(task, task.started_s, 0.0)
        if spec.resources.memory_bytes:
            self._expect_alarm(task.container)
        if spec.resources.named and spec.resources.disk_bytes:
            self._disk.begin(task, task.started_s)

    def resume(self, task: RunningTask, now_s: float) -> None:
        """Watch what stood while `task`, which has been thawed, was frozen."""
        suspension = task.suspension
        if suspension is not None and suspension.limit_stands:
            suspension.limit_stands = False
            self._check_time(task, now_s)
        if suspension is not None and suspension.samples_stand:
            suspension.samples_stand = False
            self._sample(task, now_s)

    def alarm(self, fd: int) -> None:
        """End the task whose memory limit was hit; it could do nothing any more."""
        try:
            os.eventfd_read(fd)
        except BlockingIOError:
            return  # the alarm was for the task before
        container = self._alarms[fd]
        for task in list(self._tasks):
            if task.container is container:
                peak_bytes = container.memory_peak_bytes() or 0
                self._tasks.end(task, memory_limit(task.spec, peak_bytes), 0.0, steady_s())

    def _await_time_limit(self, task: RunningTask, due_s: float) -> None:
        self._timers.add(due_s, task, lambda now_s: self._check_time(task, now_s))

    def _check_time(self, task: RunningTask, now_s: float) -> None:
        """End `task` if it has had its time; the time in which it stood does not count."""
        spec, suspension = task.spec, task.suspension
        left_s = (spec.time_limit_s or 0.0) - task.unfrozen_s(now_s)
        if suspension is None or left_s <= ROUNDING_S:
            self._tasks.end(task, time_limit(spec), spec.kill_grace_s, now_s)
        elif (due_s := suspension.after_s(now_s, left_s)) == math.inf:
            suspension.limit_stands = True
        elif not now_s < suspension.limit_due_s <= due_s:  # else that timer looks again
            suspension.limit_due_s = due_s
            self._await_time_limit(task, due_s)

    def turns_changed(self, task: RunningTask, now_s: float) -> None:
        """Watch the limit of `task` by its new turns, which may let it be reached earlier."""
        if task.spec.time_limit_s is not None:
            self._check_time(task, now_s)

    def _expect_alarm(self, container: Containment) -> None:
        fd = container.alarm_fd
        if fd >= 0 and self._alarms.get(fd) is not container:
            self._alarms[fd] = container
            self._call_when_readable(fd, lambda: self.alarm(fd))

    def _plan_sample(self, task: RunningTask, now_s: float, cpu_s: float) -> None:
        polled = is_polled(task.spec, task.container)
        due_s = next_sample_s(task.spec, now_s, cpu_s, self._machine_cpus, polled=polled)
        if due_s is not None:
            self._timers.add(due_s, task, lambda later_s: self._sample(task, later_s))

    def _sample(self, task: RunningTask, now_s: float) -> None:
        if task.kill_at_s is not None:
            return  # it is being ended already
        if task.suspension is not None and task.is_frozen and not task.container.freezes_by_signals:
            task.suspension.samples_stand = True  # it uses nothing more
            return
        cpu_s = task.container.cpu_s()
        if cpu_s is None or is_polled(task.spec, task.container):
            use = task.container.sample()
            task.sampled_peak_bytes = max(task.sampled_peak_bytes, use.memory_bytes)
            use = use._replace(cpu_s=use.cpu_s + task.cpu_s)
        else:
            use = Use(cpu_s, 0, 0)
        reason = crossed(task.spec, use)
        if reason:
            grace_s = 0.0 if reason.cause is EndCause.MEMORY_LIMIT else task.spec.kill_grace_s
            self._tasks.end(task, reason, grace_s, now_s)
        else:
            self._plan_sample(task, now_s, use.cpu_s)

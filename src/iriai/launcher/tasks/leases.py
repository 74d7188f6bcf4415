"""Leases: a task may run only for so long after its node was last known to its home.

The home starts a task again elsewhere once the lease is over for it, which is later than it is over
here (docs/spec/002, section 2). So the end must not depend on a daemon that may be stopped, and is
looked at before anything is started, also after this process itself was stopped or the machine
slept: the clock goes on in sleep.
"""

from __future__ import annotations

from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.limits import LimitExceeded
from iriai.launcher.tasks.task import RunningTask
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.state import EndCause

OVER = LimitExceeded(
    EndCause.LOST,
    "its lease was over: for too long its machine had no word from the job's home, which may have"
    " started it again elsewhere",
)


class LeaseTimers:
    """Ends tasks whose lease is over."""

    def __init__(self, tasks: Tasks, timers: Timers) -> None:
        self._tasks = tasks
        self._timers = timers
        self._renewed_s: dict[str, float] = {}
        """By home: since when, on the steady clock, the leases of all its attempts count."""

    def renew(self, home: str, asked_s: float) -> None:
        """The home has answered what was asked then: the leases of its attempts count from it."""
        self._renewed_s[home] = max(asked_s, self._renewed_s.get(home, asked_s))

    def end_s(self, order: StartOrder) -> float | None:
        """When the lease of an attempt is over on the steady clock; None: it has none."""
        if order.lease_s is None:
            return None
        since_s = max(order.leased_s, self._renewed_s.get(order.attempt.home, order.leased_s))
        return since_s + order.lease_s

    def may_start(self, order: StartOrder, now_s: float) -> bool:
        """Whether the lease that the order came with is not over.

        Renewals that came since do not count here: one may have come when this was over.
        """
        return order.lease_s is None or now_s < order.leased_s + order.lease_s

    def begin(self, task: RunningTask, order: StartOrder) -> None:
        """`task` has been started."""
        end_s = self.end_s(order)
        if end_s is not None:
            self._timers.add(end_s, task, lambda now_s: self._check(task, order, now_s))

    def _check(self, task: RunningTask, order: StartOrder, now_s: float) -> None:
        end_s = self.end_s(order)
        if end_s is None or now_s < end_s:
            self.begin(task, order)
        else:
            self._tasks.end(task, OVER, 0.0, now_s)

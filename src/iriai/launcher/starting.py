"""Attempts between their order and their process: admitted, written down, then spawned."""

from __future__ import annotations

import os
from typing import NamedTuple

from iriai.launcher.admission import Admission, NotStarted
from iriai.launcher.clock import steady_s
from iriai.launcher.crash import crash_point
from iriai.launcher.enclosure import Enclosure, Enclosures
from iriai.launcher.journal import Intent
from iriai.launcher.leases import OVER, Leases
from iriai.launcher.limits import kernel_limits
from iriai.launcher.messages import Alive, Order
from iriai.launcher.scratch import NoDirectory
from iriai.launcher.spawn import Prepared
from iriai.launcher.task import Task
from iriai.launcher.tasks import Tasks
from iriai.launcher.watch import Watch
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause

SPAWNS_A_TURN = 16
"""Between two looks at what ended and what was asked: more makes ends wait, fewer costs calls."""


class _Pending(NamedTuple):
    """What is needed to spawn one attempt."""

    order: Order
    prepared: Prepared
    enclosure: Enclosure
    fd: int
    """What the client passed, or -1."""


class Starting:
    """The attempts that were ordered and have no process yet."""

    def __init__(
        self,
        admission: Admission,
        enclosures: Enclosures,
        tasks: Tasks,
        watch: Watch,
        leases: Leases,
    ) -> None:
        self._admission = admission
        self._enclosures = enclosures
        self._tasks = tasks
        self._watch = watch
        self._leases = leases
        self._pending: dict[AttemptId, _Pending] = {}
        self.failed: list[tuple[AttemptId, NotStarted]] = []
        """Could not be spawned, until the caller takes them."""

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._pending

    def attempts(self) -> list[AttemptId]:
        """All of them."""
        return list(self._pending)

    def admit(
        self, order: Order, prepared: Prepared | NotStarted, fd: int, wall_s: float
    ) -> Intent:
        """Take an order in; what is returned must be durable before `spawn_some` is called.

        Raises `NotStarted`; then `fd` is closed.
        """
        try:
            if isinstance(prepared, NotStarted):
                raise prepared
            self._admission.check(order, prepared, has_descriptor=fd >= 0)
            enclosure = self._acquire()
        except NotStarted:
            close(fd)
            raise
        self._pending[order.attempt] = _Pending(order, prepared, enclosure, fd)
        return Intent(order.attempt, prepared.login.uid, enclosure.number, prepared.digest, wall_s)

    def give_up(self, attempt: AttemptId) -> None:
        """Do not spawn `attempt`."""
        pending = self._pending.pop(attempt)
        close(pending.fd)
        self._enclosures.release(pending.enclosure)

    def spawn_some(self) -> list[tuple[Alive, int]]:
        """Spawn the next few; returns them, each with the start time of its process."""
        started = []
        for attempt in list(self._pending)[:SPAWNS_A_TURN]:
            pending = self._pending.pop(attempt)
            task = self._spawn(pending)
            close(pending.fd)
            if task is None:
                self._enclosures.release(pending.enclosure)
                continue
            self._watch.begin(task)
            self._leases.begin(task, pending.order)
            started.append((task.alive, pending.enclosure.started_ticks))
            crash_point("after-spawn")
        return started

    def _acquire(self) -> Enclosure:
        try:
            return self._enclosures.acquire()
        except OSError as error:
            raise NotStarted(EndCause.REFUSED, f"no control group: {error.strerror}") from error

    def _spawn(self, pending: _Pending) -> Task | None:
        order, prepared, enclosure, fd = pending
        lease_end_s = self._leases.end_s(order)
        if lease_end_s is not None and steady_s() >= lease_end_s:
            self.failed.append((order.attempt, NotStarted(*OVER)))
            return None
        try:
            enclosure.prepare(kernel_limits(prepared.spec))
            return self._tasks.start(prepared, order, enclosure, fd)
        except NoDirectory as error:
            self.failed.append((order.attempt, NotStarted(EndCause.REFUSED, str(error))))
            return None
        except (OSError, ValueError) as error:
            text = f"the task could not be started: {getattr(error, 'strerror', None) or error}"
            self.failed.append((order.attempt, NotStarted(EndCause.FAILED, text)))
            return None


def close(fd: int) -> None:
    """Close a descriptor that a client passed, if it did."""
    if fd >= 0:
        os.close(fd)

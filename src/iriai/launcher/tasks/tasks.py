"""The table of running tasks: started, asked to end, reaped, and over when no process is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from iriai.launcher.containment.container import Containment, Containments
from iriai.launcher.containment.namespaces.pool import Namespaces
from iriai.launcher.contract.messages import Defective, Exit, StartOrder
from iriai.launcher.directories.scratch import NoDirectory, Scratch
from iriai.launcher.gpus.gpus import Gpus
from iriai.launcher.hooks.hooks import Hooks
from iriai.launcher.spawn.payloads import PayloadFiles
from iriai.launcher.spawn.spawn import (
    NO_PAYLOAD,
    Payload,
    Prepared,
    ReadyHelper,
    Spawner,
    read_failures,
)
from iriai.launcher.spawn.streams import NO_ENDS, Streams, TaskEnds
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.task import LimitExceeded, RunningTask
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.system.clock import steady_s, wall_s
from iriai.system.internal_errors import InternalErrors
from iriai.system.procfs import read_process

NOT_STARTED = "kept it from starting"
ENDED = "ended it"


class Defects(InternalErrors):
    """Internal errors since this launcher started.

    Guarded by this are the actions of timers, descriptors and ended children, and what is done for
    one attempt. Not guarded are the turn itself and the journal: an error there leaves in doubt
    what is written down, and the launcher begins again from that (ADR 0087).
    """

    def __init__(self) -> None:
        super().__init__()
        self._reported = 0
        """How many the daemon knows of."""

    def so_far(self) -> Defective | None:
        """Return what a daemon that attaches has to know; None: there was no error."""
        self._reported = self.count
        return Defective(self.count, self.last) if self.count else None

    def news(self) -> Defective | None:
        """Return the same if there was another error since the last report, else None."""
        return self.so_far() if self.count != self._reported else None

    def record(self, doing: str, error: Exception, cost: str = NOT_STARTED) -> str:
        """Count and log an error in `doing`; return the message for whoever waits for that."""
        self.add(f"internal error {self.count + 1} of this launcher, {doing}", error)
        kind = type(error).__name__
        return f"an internal error of the launcher {cost} ({kind}); see its log"


LOOK_AGAIN_S = 0.05
"""Between two attempts to kill what is left of a task; usually the first is enough."""


class LauncherParts(NamedTuple):
    """What tasks are started, watched and ended with; made once."""

    spawner: Spawner
    containers: Containments
    payloads: PayloadFiles
    scratch: Scratch
    namespaces: Namespaces
    timers: Timers
    hooks: Hooks
    gpus: Gpus
    defects: Defects


class ReadyTask(NamedTuple):
    """A task that has everything but a process."""

    task: RunningTask
    helper: ReadyHelper
    ends: TaskEnds
    uid: int
    mark: str


class Tasks:
    """All tasks that have a process."""

    def __init__(self, parts: LauncherParts) -> None:
        self._parts = parts
        self.streams = Streams()
        """The daemon's ends of streams."""
        self._by_attempt: dict[AttemptId, RunningTask] = {}
        self._by_pid: dict[int, RunningTask] = {}
        """By main process that was not reaped yet."""
        self._by_session: dict[int, RunningTask] = {}
        self._left_over: list[RunningTask] = []
        """Tasks whose main process ended, and whose tree may not be empty."""
        self._ends: list[Exit] = []

    def __len__(self) -> int:
        return len(self._by_attempt)

    def __iter__(self) -> Iterator[RunningTask]:
        return iter(self._by_attempt.values())

    def get(self, attempt: AttemptId) -> RunningTask | None:
        """Return the running task of `attempt`."""
        return self._by_attempt.get(attempt)

    def drain_exits(self) -> list[Exit]:
        """Return the ends since the last call."""
        ends, self._ends = self._ends, []
        return ends

    def ready(self, prepared: Prepared, order: StartOrder, container: Containment) -> ReadyTask:
        """Return the task of `order`, which `start` or `drop` has to follow.

        Raises OSError or ValueError if that is impossible, `NoDirectory` if it is at present.
        """
        payload = self._store(prepared)
        login, scratch = prepared.login, None
        try:
            scratch = self._parts.scratch.acquire(login.uid, login.gid)
            namespace = self._parts.namespaces.acquire(login.uid, prepared.visible)
        except NoDirectory:
            self._drop(payload)
            if scratch is not None:
                self._parts.scratch.give_back(scratch, steady_s())
            raise
        task = RunningTask(order.attempt, prepared.spec, container, payload, scratch, namespace)
        mark, ends = self._parts.spawner.mark_of(order.attempt), NO_ENDS
        try:
            ends = self.streams.make(order.attempt, prepared.spec, login)
            namespace_fd = -1 if namespace is None else namespace.fd
            helper = self._parts.spawner.ready(
                prepared, order, mark, container.joins, payload, scratch, namespace_fd, ends
            )
        except Exception:
            self._abandon(task, ends)
            raise
        return ReadyTask(task, helper, ends, login.uid, mark)

    def drop(self, ready: ReadyTask) -> None:
        """Give up a task without starting it."""
        ready.helper.close()
        self._abandon(ready.task, ready.ends)

    def _abandon(self, task: RunningTask, ends: TaskEnds) -> None:
        """Release what a task has that was not started."""
        self._give_back(task)
        ends.close()
        self.streams.close(task.attempt)

    def ask(self, ready: ReadyTask, now_s: float) -> bool:
        """Ask for a task; `start` has to follow, with this answer. Raises as `start` does."""
        ready.task.started_s, ready.task.started_wall_s = now_s, wall_s()
        try:
            return self._parts.spawner.ask(ready.helper)
        except Exception:
            self.drop(ready)
            raise

    def start(self, ready: ReadyTask, *, asked: bool) -> RunningTask:
        """Start a task, after `ask`. Raises OSError or ValueError if that is impossible."""
        task, helper, ends, uid, mark = ready
        try:
            pid = self._parts.spawner.start(helper, asked=asked)
        except Exception:
            self._abandon(task, ends)
            raise
        if ends is not NO_ENDS:
            ends.close()
        task.pid = pid
        task.container.hold(pid, uid, mark)
        self._by_attempt[task.attempt] = task
        self._by_pid[task.pid] = self._by_session[task.pid] = task
        return task

    def end(self, task: RunningTask, reason: LimitExceeded, grace_s: float, now_s: float) -> None:
        """Send SIGTERM to the whole tree of a task, and kill it after `grace_s`.

        The first reason stays; a later request can only shorten the grace.
        """
        if task.is_over:
            return
        if task.cause is None:
            task.cause, task.message = reason
        kill_at_s = now_s + max(grace_s, 0.0)
        if task.kill_at_s is not None and task.kill_at_s <= kill_at_s:
            return
        if kill_at_s > now_s and task.kill_at_s is None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process must get it too
                _signal_main(task, number)
                for pid in task.container.processes():
                    if pid != task.pid:
                        with suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, number)
        task.kill_at_s = kill_at_s
        if kill_at_s <= now_s:
            self._kill(task, now_s)
        else:
            self._parts.timers.add(kill_at_s, task, lambda late_s: self._kill(task, late_s))

    def give_up(self, task: RunningTask, words: str, now_s: float) -> None:
        """End `task` at once, after an internal error in enforcing its limits."""
        if task.cause is None:
            task.cause, task.message = EndCause.FAILED, words
        task.kill_at_s = now_s
        self._parts.timers.add(now_s + LOOK_AGAIN_S, task, lambda late_s: self._kill(task, late_s))

    def reap(self) -> None:
        """Reap all processes that ended; kill what main processes left behind."""
        reaped: list[RunningTask] = []
        found_any = False
        while (pid := _ended_child()) is not None:
            found_any = True
            task = self._by_pid.pop(pid, None)
            if task is None:
                self._reap_other(pid)
                continue
            _, task.status, usage = os.wait4(pid, 0)
            task.count(usage)
            reaped.append(task)
        if reaped:
            self._left_over += reaped
            self._drain_failures(reaped)
        if found_any and self._left_over:
            self._finish_empty(reaped)

    def _reap_other(self, pid: int) -> None:
        """Reap a child that is no main process: a hook, or what a task left behind."""
        owner = self._owner_of(pid)
        _, status, usage = os.wait4(pid, 0)
        try:
            is_hook = self._parts.hooks.ended(pid, status)
        except Exception as error:  # noqa: BLE001 - it costs what waited for the hook alone
            self._parts.defects.record("the end of a hook", error)
            return
        if not is_hook and owner is not None:
            owner.count(usage)

    def _finish_empty(self, reaped: list[RunningTask]) -> None:
        remaining = []
        now_s, now_wall_s = steady_s(), wall_s()
        for task in self._left_over:
            if task.container.is_empty():
                self._finish(task, now_s, now_wall_s)
            else:
                remaining.append(task)
        self._left_over = remaining
        if remaining:
            for task in reaped:
                if not task.is_over:
                    self._kill(task, now_s)

    def _kill(self, task: RunningTask, now_s: float) -> None:
        """Send SIGKILL to all of the task, repeatedly until it is over."""
        if task.status is not None and task.container.is_empty():
            self._left_over.remove(task)
            self._finish(task, now_s, wall_s())
            return
        _signal_main(task, signal.SIGKILL)
        task.container.kill()
        self._parts.timers.add(
            now_s + LOOK_AGAIN_S, task, lambda later_s: self._kill(task, later_s)
        )

    def _finish(self, task: RunningTask, now_s: float, now_wall_s: float) -> None:
        task.is_over = True
        try:
            end = task.exit(now_s, now_wall_s)
        except Exception as error:  # noqa: BLE001 - what it used is not known; that it ended is
            end = self._unknown_end(task, error, now_s, now_wall_s)
        self._ends.append(end)
        del self._by_attempt[task.attempt]
        if self._by_session.get(task.pid) is task:
            del self._by_session[task.pid]
        if self._parts.gpus.held:
            self._parts.gpus.release(task.attempt)
        try:
            self._give_back(task)
            self._parts.containers.release(task.container)
        except Exception as error:  # noqa: BLE001 - it is lost, and the next task gets another
            self._parts.defects.record(f"releasing the resources of {task.attempt}", error)

    def _unknown_end(
        self, task: RunningTask, error: Exception, now_s: float, now_wall_s: float
    ) -> Exit:
        words = self._parts.defects.record(
            f"the end of {task.attempt}", error, "left its end unknown"
        )
        begun_s, lasted_s = task.started_wall_s, now_s - task.started_s
        cause = task.cause or EndCause.FAILED
        return Exit(task.attempt, cause, None, None, Usage(), begun_s, now_wall_s, lasted_s, words)

    def _give_back(self, task: RunningTask) -> None:
        """Release what it used; no process of it is left."""
        if task.payload is not NO_PAYLOAD:
            self._drop(task.payload)
        self._parts.scratch.give_back(task.scratch, task.started_s)
        if task.namespace is not None:
            self._parts.namespaces.give_back(task.namespace, task.started_s)

    def _drain_failures(self, reaped: list[RunningTask]) -> None:
        failures = {
            failure.pid: failure for failure in read_failures(self._parts.spawner.failures_fd)
        }
        if failures:
            for task in reaped:
                task.failure = failures.get(task.pid)

    def _owner_of(self, pid: int) -> RunningTask | None:
        """Return the task that left the zombie `pid` behind, if its session tells."""
        process = read_process(pid)
        return self._by_session.get(process.session) if process else None

    def _store(self, prepared: Prepared) -> Payload:
        script = stdin = ""
        if not (prepared.script or prepared.stdin):
            return NO_PAYLOAD
        if prepared.script:
            login = prepared.login
            script = self._parts.payloads.keep_script(prepared.script, login.uid, login.gid)
        if prepared.stdin:
            stdin = self._parts.payloads.keep_input(prepared.stdin)
        return Payload(script, stdin)

    def _drop(self, payload: Payload) -> None:
        for name in payload:
            if name:
                self._parts.payloads.release(name)


def _signal_main(task: RunningTask, number: signal.Signals) -> None:
    """Signal the main process directly: it may not have joined its control group yet.

    It comes first, so that a shell does not see its child killed and exit by itself.
    """
    if task.status is None:
        with suppress(PermissionError):  # it may have become another user's, by a setuid file
            os.kill(task.pid, number)


def _ended_child() -> int | None:
    """Return a child that ended and is not reaped yet, so that /proc still describes it."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found else None

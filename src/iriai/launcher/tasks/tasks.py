"""The table of running tasks: started, asked to end, reaped, and over when no process is left."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from iriai.launcher.containment.container import Containment
from iriai.launcher.contract.messages import Exit, StartOrder
from iriai.launcher.directories.scratch import NoDirectory
from iriai.launcher.environment.batch_variables import write_node_file
from iriai.launcher.pmi.pmi_sockets import PmiSockets
from iriai.launcher.pmi.seat_server import Abort
from iriai.launcher.spawn.spawn import (
    NO_PAYLOAD,
    Payload,
    Prepared,
    ReadyHelper,
    SpawnError,
    read_failures,
)
from iriai.launcher.spawn.streams import NO_ENDS, Streams, TaskEnds
from iriai.launcher.tasks.parts import LauncherParts, ReadyTask
from iriai.launcher.tasks.rank_processes import RankStage
from iriai.launcher.tasks.seat import make_seat, of_stage, only_waits, waiting
from iriai.launcher.tasks.steps import LOOK_AGAIN_S, Steps
from iriai.launcher.tasks.suspension import TaskSuspension
from iriai.launcher.tasks.task import LimitExceeded, RunningTask
from iriai.model.batch_variables import BatchSystem
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.state import EndCause
from iriai.model.submission import Layout
from iriai.model.usage import Usage
from iriai.system.clock import steady_s, wall_s
from iriai.system.passwd_cache import Login
from iriai.system.procfs import read_process


class RankStart(NamedTuple):
    """A further rank of a seat that runs, where the kernel does not tell whose a process is."""

    attempt: AttemptId
    pid: int
    ticks: int


class Tasks:
    """All tasks that have a process."""

    def __init__(self, parts: LauncherParts) -> None:
        self._parts = parts
        self.streams = Streams()
        """The daemon's ends of streams."""
        self.steps = Steps(
            parts.spawner, parts.timers, self.streams, self.get, parts.defects.record
        )
        self.pmi = PmiSockets(parts.watch, self._aborted)
        self._by_attempt: dict[AttemptId, RunningTask] = {}
        self._by_pid: dict[int, RunningTask] = {}
        """By main process that was not reaped yet."""
        self._by_session: dict[int, RunningTask] = {}
        self._left_over: list[RunningTask] = []
        """Tasks whose main process ended, and whose tree may not be empty."""
        self._failures: dict[int, SpawnError] = {}
        """Reports of helpers that were not reaped, by pid."""
        self._ends: list[Exit] = []
        self.unfinished: deque[RunningTask] = deque()
        """Seats some of whose ranks have not been started; `start_ranks` does that."""
        self._rank_starts: list[RankStart] = []

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
        kept = prepared if payload is NO_PAYLOAD else prepared._replace(script=b"", stdin=b"")
        task = RunningTask(
            order.attempt, prepared.spec, container, payload, scratch, namespace, kept, order
        )
        task.script_bytes = len(prepared.script)
        mark, batch, rank = self._parts.spawner.mark_of(order.attempt), prepared.spec.batch, 0
        try:
            if order.parallel is not None:
                rank = order.attempt.rank
                make_seat(task, self._parts.processors)
                kept, payload = self._of_place(task, RankStage(rank, 0))
            if disk_bytes := task.spec.resources.disk_bytes:
                task.quota = self._parts.scratch.limit(scratch, disk_bytes)
            if batch is not None and batch.system is BatchSystem.PBS:
                write_node_file(scratch.fd, order, prepared.spec.resources.cpus, login.uid)
            helper, ends = self._helper(task, kept, payload, rank, mark)
        except Exception:
            self._abandon(task, NO_ENDS)
            raise
        return ReadyTask(task, helper, ends, login.uid, mark)

    def _of_place(self, task: RunningTask, place: RankStage) -> tuple[Prepared, Payload]:
        """Return what a process of a seat is started from."""
        prepared, payload = of_stage(task.prepared, task.order, place), task.payload
        if only_waits(prepared, task.order):
            return waiting(prepared, self._parts.spawner.options), NO_PAYLOAD
        return prepared, payload._replace(stdin="") if any(place) else payload

    def _helper(
        self, task: RunningTask, prepared: Prepared, payload: Payload, rank: int, mark: str
    ) -> tuple[ReadyHelper, TaskEnds]:
        """Return the helper that becomes a rank of `task`, and its streams.

        Raises OSError or ValueError; `streams` may have ends of it then.
        """
        order, namespace, scratch = task.order, task.namespace, task.scratch
        spec, login = prepared.spec, prepared.login
        if order.parallel is None:
            ends = self.streams.make(order.attempt, spec, login, rank)
        else:
            ends = self._rank_ends(task, spec, login, rank)
        fd = -1 if namespace is None else namespace.fd
        joins = task.container.joins
        try:
            helper = self._parts.spawner.ready(
                prepared, order, mark, joins, payload, scratch, fd, ends, rank
            )
        except Exception:
            ends.close()
            raise
        return helper, ends

    def _rank_ends(self, task: RunningTask, spec: JobSpec, login: Login, rank: int) -> TaskEnds:
        """Return the streams of what is started next of a seat, and its process manager."""
        seat = task.attempt
        if task.ranks is not None and task.ranks.stages > 1:
            return task.ranks.stage_ends(login, lambda: self.streams.make(seat, spec, login, rank))
        ends = self.streams.make(seat, spec, login, rank)
        if spec.layout is Layout.FIRST:
            return ends
        try:
            return ends._replace(pmi=self.pmi.connect(task.order, rank))
        except OSError:
            ends.close()
            raise

    def drop(self, ready: ReadyTask) -> None:
        """Give up a task without starting it."""
        ready.helper.close()
        self._abandon(ready.task, ready.ends)

    def _abandon(self, task: RunningTask, ends: TaskEnds) -> None:
        """Release what a task has that was not started."""
        if task.ranks is not None:
            task.ranks.start_no_more()
        self._close_seat(task)
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
        if task.ranks is not None:
            task.ranks.started(pid)
            self.unfinished.append(task)
        return task

    # --- further ranks ---------------------------------------------------------------------------

    def start_ranks(self, most: int) -> list[RankStart]:
        """Start `most` further processes, of each seat in turn; return those to be journalled."""
        started: list[RankStart] = []
        while self.unfinished and most > 0:
            task = self.unfinished.popleft()
            ranks = task.ranks
            place = None if ranks is None else ranks.next_place
            if ranks is None or place is None:
                continue
            self.unfinished.append(task)
            most -= 1
            try:
                pid = self._start_rank(task, place)
            except Exception as error:  # noqa: BLE001 - whatever it is, it costs this seat alone
                self._rank_not_started(task, place.rank, error)
                continue
            ranks.started(pid)
            ticks = task.container.started_ticks
            if ticks:
                started.append(RankStart(task.attempt, pid, ticks))
        return started

    def hold_ranks(self, task: RunningTask) -> None:
        """Start no further rank of a seat until `resume_ranks`: it is frozen."""
        with suppress(ValueError):
            self.unfinished.remove(task)

    def resume_ranks(self, task: RunningTask) -> None:
        """Start the rest of a seat that goes on."""
        if task.ranks is not None and task.ranks.next_place is not None:
            self.unfinished.append(task)

    def _start_rank(self, task: RunningTask, place: RankStage) -> int:
        mark, login = self._parts.spawner.mark_of(task.attempt), task.prepared.login
        prepared, payload = self._of_place(task, place)
        helper, ends = self._helper(task, prepared, payload, place.rank, mark)
        try:
            pid = self._parts.spawner.start(helper, asked=self._parts.spawner.ask(helper))
        finally:
            ends.close()
        task.container.hold(pid, login.uid, mark)
        self._by_pid[pid] = self._by_session[pid] = task
        return pid

    def _rank_not_started(self, task: RunningTask, rank: int, error: Exception) -> None:
        if isinstance(error, OSError | ValueError):
            why = getattr(error, "strerror", None) or error
            words = f"rank {rank} could not be started: {why}"
        else:
            words = self._parts.defects.record(f"starting rank {rank} of {task.attempt}", error)
        reason = LimitExceeded(EndCause.FAILED, words)
        self.end(task, reason, task.spec.kill_grace_s, steady_s())

    def _aborted(self, seat: AttemptId, abort: Abort) -> None:
        """End a seat one of whose ranks aborts, which ends by itself."""
        task = self._by_attempt.get(seat)
        if task is not None and task.ranks is not None:
            task.ranks.aborted(abort.rank, abort.exit_code)
            if task.ranks.must_end():
                self.end(task, None, task.spec.kill_grace_s, steady_s())

    # --- ends ------------------------------------------------------------------------------------

    def end(
        self, task: RunningTask, reason: LimitExceeded | None, grace_s: float, now_s: float
    ) -> None:
        """Send SIGTERM to the whole tree of a task, and kill it after `grace_s`.

        The first reason stays, None: how a rank ended; a later request can only shorten the grace.
        """
        if task.is_over:
            return
        if task.cause is None and task.kill_at_s is None and reason is not None:
            task.cause, task.message = reason
        kill_at_s = now_s + max(grace_s, 0.0)
        if task.kill_at_s is not None and task.kill_at_s <= kill_at_s:
            return
        if task.container.is_lowered:
            self.leave_idle(task)
        if kill_at_s > now_s and task.kill_at_s is None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process must get it too
                _signal_main(task, number)
                own = task.unreaped
                for pid in task.container.processes():
                    if pid not in own:
                        with suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, number)
            suspension = task.suspension
            if suspension is not None and (suspension.is_frozen or suspension.turns is not None):
                self._thaw_for_grace(task, suspension, now_s)
        task.kill_at_s = kill_at_s
        if task.ranks is not None:
            task.ranks.start_no_more()
            if task.ranks.is_over and task.status is None:
                self._left_over.append(task)
                task.settle()
                kill_at_s = now_s
        if kill_at_s <= now_s:
            self._kill(task, now_s)
        else:
            self._parts.timers.add(kill_at_s, task, lambda late_s: self._kill(task, late_s))

    def _thaw_for_grace(self, task: RunningTask, suspension: TaskSuspension, now_s: float) -> None:
        """Let a task go on that is asked to end; orders about it change nothing any more."""
        self.leave_turns(task, now_s)
        if suspension.is_frozen:
            suspension.thaw(now_s)
        try:
            task.container.thaw((*task.unreaped, *self.steps.pids_of(task.attempt)), now_s)
        except OSError as error:  # it is killed after the grace all the same
            self._parts.defects.record(f"thawing {task.attempt}", error, "kept it frozen")

    def leave_idle(self, task: RunningTask) -> None:
        """Let a task that is to end, or does not give way, have processor time beside its owner's.

        In the idle class beside a busy owner its end takes a minute.
        """
        also = (*task.unreaped, *self.steps.pids_of(task.attempt))
        try:
            task.container.leave_idle(also)
        except Exception as error:  # noqa: BLE001 - it goes on there
            self._parts.defects.record(
                f"lifting {task.attempt}", error, "left it in the idle class"
            )

    def leave_turns(self, task: RunningTask, now_s: float) -> None:
        """Take no turns with a task any more; it stays frozen or thawed as it is."""
        suspension = task.suspension
        if suspension is None or suspension.turns is None:
            return
        path = suspension.turns.path
        suspension.give_turns(None, now_s)
        if path:
            self._parts.switcher.withdraw(path)

    def give_up(self, task: RunningTask, words: str, now_s: float) -> None:
        """End `task` at once, after an internal error in enforcing its limits."""
        if task.cause is None:
            task.cause, task.message = EndCause.FAILED, words
        task.kill_at_s = now_s
        self._parts.timers.add(now_s + LOOK_AGAIN_S, task, lambda late_s: self._kill(task, late_s))

    def reap(self) -> None:
        """Reap all processes that ended; kill what main processes left behind."""
        reaped: list[RunningTask] = []
        of_ranks: list[tuple[RunningTask, int, int]] = []
        found_any = False
        while (pid := _ended_child()) is not None:
            found_any = True
            task = self._by_pid.pop(pid, None)
            if task is None:
                if pid in self.steps:
                    self.steps.reap(pid)
                else:
                    self._reap_other(pid)
                continue
            _, status, usage = os.wait4(pid, 0)
            task.count(usage)
            if task.ranks is not None:
                of_ranks.append((task, pid, status))
                continue
            task.status = status
            reaped.append(task)
        if reaped or of_ranks or self.steps.has_reaped:
            self._drain_failures(reaped)
            if of_ranks:
                reaped += self._ranks_ended(of_ranks)
            self._left_over += reaped
        if found_any and self._left_over:
            self._finish_empty(reaped)

    def _ranks_ended(self, reaped: list[tuple[RunningTask, int, int]]) -> list[RunningTask]:
        """Take in ends of processes of seats; return the seats that have none left.

        A rank that failed ends the others of its seat.
        """
        for task, pid, status in reaped:
            if task.ranks is not None:
                task.ranks.ended(pid, status, self._failures.pop(pid, None))
        over = []
        for task in dict.fromkeys(task for task, _, _ in reaped):
            if task.ranks is not None and task.ranks.is_over:
                task.settle()
                over.append(task)
            elif task.ranks is not None and task.ranks.must_end():
                self.end(task, None, task.spec.kill_grace_s, steady_s())
        return over

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
            if self._is_empty(task):
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
        if task.status is not None and self._is_empty(task):
            self._left_over.remove(task)
            self._finish(task, now_s, wall_s())
            return
        if task.suspension is not None:
            self.leave_turns(task, now_s)
        if task.container.is_lowered:
            self.leave_idle(task)
        _signal_main(task, signal.SIGKILL)
        self.steps.kill(task.attempt)
        task.container.kill()
        self._parts.timers.add(
            now_s + LOOK_AGAIN_S, task, lambda later_s: self._kill(task, later_s)
        )

    def _is_empty(self, task: RunningTask) -> bool:
        """Return whether nothing is left of a task, after its main process, nor of its steps."""
        if not task.container.is_empty():
            return False
        return not (self.steps.seats and self.steps.has_live(task.attempt))

    def _finish(self, task: RunningTask, now_s: float, now_wall_s: float) -> None:
        task.is_over = True
        if task.suspension is not None:  # before its group is another task's
            self.leave_turns(task, now_s)
        try:
            end = task.exit(now_s, now_wall_s)
        except Exception as error:  # noqa: BLE001 - what it used is not known; that it ended is
            end = self._unknown_end(task, error, now_s, now_wall_s)
        self._ends.append(end)
        del self._by_attempt[task.attempt]
        if self.steps.seats:
            self.steps.seat_ended(task.attempt)
        if self._by_session.get(task.pid) is task:
            del self._by_session[task.pid]
        if task.order.parallel is not None:
            self._close_seat(task)
            for pid in task.ranks.pids if task.ranks is not None else ():
                if self._by_session.get(pid) is task:
                    del self._by_session[pid]
        if self._parts.gpus.held:
            self._parts.gpus.release(task.attempt)
        try:
            self._give_back(task)
            self._parts.containers.release(task.container)
        except Exception as error:  # noqa: BLE001 - it is lost, and the next task gets another
            self._parts.defects.record(f"releasing the resources of {task.attempt}", error)

    def _close_seat(self, task: RunningTask) -> None:
        """Release what the ranks of a seat have had in common."""
        self.pmi.close(task.attempt)
        self._parts.processors.release(task.attempt)

    def _unknown_end(
        self, task: RunningTask, error: Exception, now_s: float, now_wall_s: float
    ) -> Exit:
        words = self._parts.defects.record(
            f"the end of {task.attempt}", error, "left its end unknown"
        )
        begun_s, lasted_s = task.started_wall_s, task.unfrozen_s(now_s)
        cause = task.cause or EndCause.FAILED
        return Exit(task.attempt, cause, None, None, Usage(), begun_s, now_wall_s, lasted_s, words)

    def _give_back(self, task: RunningTask) -> None:
        """Release what it used; no process of it is left."""
        if task.payload is not NO_PAYLOAD:
            self._drop(task.payload)
        if task.quota is not None:
            self._parts.scratch.limit_no_more(task.scratch, task.quota)
        self._parts.scratch.give_back(task.scratch, task.started_s)
        if task.namespace is not None:
            self._parts.namespaces.give_back(task.namespace, task.started_s)

    def _drain_failures(self, reaped: list[RunningTask]) -> None:
        """Take in what helpers have reported; tasks that were reaped and steps are told.

        The rest is kept: of a helper that has reported and not ended yet.
        """
        for failure in read_failures(self._parts.spawner.failures_fd):
            self._failures[failure.pid] = failure
        if self._failures:
            for task in reaped:
                task.failure = self._failures.pop(task.pid, None)
        if self.steps.has_reaped:
            self.steps.finish(self._failures)

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
    for pid in task.unreaped:
        with suppress(PermissionError):  # it may have become another user's, by a setuid file
            os.kill(pid, number)


def _ended_child() -> int | None:
    """Return a child that ended and is not reaped yet, so that /proc still describes it."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found else None

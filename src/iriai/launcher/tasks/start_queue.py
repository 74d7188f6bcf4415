"""Attempts between their order and their process: admitted, journalled, then spawned."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from iriai.launcher.containment.container import Containment
from iriai.launcher.contract.machine_config import EPILOG, PROLOG
from iriai.launcher.contract.messages import Alive, Exit, StartOrder
from iriai.launcher.directories.scratch import NoDirectory
from iriai.launcher.environment.rank_variables import seats_problem
from iriai.launcher.gpus.gpus import CardTaken
from iriai.launcher.hooks.hooks import Hooks, cleaned, hook_environment, uncleanness
from iriai.launcher.journal.journal import Intent, JournalState, Owed
from iriai.launcher.spawn.spawn import Prepared
from iriai.launcher.system.crash_points import crash_point
from iriai.launcher.tasks.admission import NotStarted, parallel_problem
from iriai.launcher.tasks.limit_monitor import OVER, LeaseTimers, LimitMonitor
from iriai.launcher.tasks.parts import ENDED, LauncherParts, ReadyTask
from iriai.launcher.tasks.suspended_tasks import SuspendedTasks
from iriai.launcher.tasks.task import LimitExceeded, RunningTask, kernel_limits, spec_of_seat
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.system.clock import steady_s


class Epilogs:
    """Epilogs from the order of an attempt to their end.

    An attempt's end is journalled when it is known, and reported when the epilog is over: until
    then the machine is not free for others. What is owed is in the journal, so that the next
    launcher after a crash runs the epilogs of all attempts that were lost.
    """

    def __init__(self, hooks: Hooks, known: JournalState) -> None:
        self._hooks = hooks
        self._known = known
        self._new: list[Owed] = []
        self._due: dict[AttemptId, dict[str, str]] = {}
        """The environment of each epilog to come."""
        self._begun: dict[AttemptId, None] = {}
        """Those whose prolog or attempt began."""
        self._running: dict[AttemptId, Exit] = {}
        """Ends that wait for their epilog."""
        self._done: list[Exit] = []

    def __len__(self) -> int:
        """Return how many run, or have ended and were not collected."""
        return len(self._running) + len(self._done)

    def __contains__(self, attempt: AttemptId) -> bool:
        """Return whether the end of `attempt` waits for its epilog."""
        return attempt in self._running

    def running(self) -> list[Exit]:
        """Return the ends that wait."""
        return list(self._running.values())

    def owe(self, order: StartOrder, prepared: Prepared) -> None:
        """Record that an attempt owes an epilog, if one is configured.

        Raises `NotStarted` if a variable of the epilog has characters that are not permitted.
        """
        if self._hooks.wants(EPILOG, order.attempt):
            environment = hook_environment(order, prepared)
            words = uncleanness(environment)
            if words:
                raise NotStarted(EndCause.FAILED, words)
            self._due[order.attempt] = environment
            self._new.append(Owed(order.attempt, environment))

    def drain_new(self) -> list[Owed]:
        """Return what is owed since the last call, to be journalled before it begins."""
        new, self._new = self._new, []
        return new

    def begun(self, attempt: AttemptId) -> None:
        """Record that the prolog or the attempt itself began."""
        if attempt in self._due:
            self._begun[attempt] = None

    def forgive(self, attempt: AttemptId) -> None:
        """Run no epilog after this attempt: the machine stays as it is."""
        self._begun.pop(attempt, None)

    def recover(self) -> None:
        """Run the epilogs that an earlier launcher owes; call it once settings are known."""
        for attempt, owed in list(self._known.owed.items()):
            end = self._known.exits.get(attempt)
            if end is not None and not self._is_in_hand(attempt):
                self._due[attempt] = cleaned(owed.environment)
                self._begun[attempt] = None
                self._after(end)

    def _is_in_hand(self, attempt: AttemptId) -> bool:
        is_done = any(end.attempt == attempt for end in self._done)
        return is_done or attempt in self._running or attempt in self._due

    def after(self, ends: list[Exit]) -> list[Exit]:
        """Begin the epilogs of `ends`; return ends without an epilog, or after it."""
        free = [end for end in ends if not self._after(end)] if self._due else ends
        done, self._done = self._done, []
        return free + done

    def _after(self, end: Exit) -> bool:
        """Begin the epilog of `end`; return False if it has none."""
        attempt = end.attempt
        environment = self._due.pop(attempt, None)
        if environment is None:
            return False
        is_begun = attempt in self._begun
        self._begun.pop(attempt, None)
        if not is_begun or not self._hooks.wants(EPILOG, attempt):
            return False
        result = {
            "IRIAI_CAUSE": end.cause.value,
            "IRIAI_EXIT_CODE": "" if end.exit_code is None else str(end.exit_code),
            "IRIAI_SIGNAL": "" if end.signal is None else str(end.signal),
        }
        self._running[attempt] = end
        self._hooks.start(EPILOG, attempt, environment | result, lambda _: self._ended(attempt))
        return True

    def _ended(self, attempt: AttemptId) -> None:
        self._done.append(self._running.pop(attempt))


SPAWNS_A_TURN = 32
"""Spawns between two checks for ends and requests: more delays ends, by some ten milliseconds on a
busy machine, and fewer make each of them cost more."""


class _Pending(NamedTuple):
    """What is needed to spawn one attempt."""

    order: StartOrder
    prepared: Prepared
    container: Containment


class StartQueue:
    """The attempts that were ordered and have no process yet."""

    def __init__(
        self,
        parts: LauncherParts,
        tasks: Tasks,
        watch: LimitMonitor,
        leases: LeaseTimers,
        epilogs: Epilogs,
        suspended: SuspendedTasks,
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._watch = watch
        self._leases = leases
        self._epilogs = epilogs
        self._suspended = suspended
        self._pending: dict[AttemptId, _Pending] = {}
        """Those that are to be spawned next, after their prolog if one is wanted."""
        self._in_prolog: dict[AttemptId, _Pending] = {}
        self._prepared: dict[AttemptId, None] = {}
        """Those in `_pending` whose prolog is over."""
        self.failed: list[tuple[AttemptId, NotStarted]] = []
        """Those that could not be spawned, until the caller takes them."""

    def __len__(self) -> int:
        return len(self._pending) + len(self._in_prolog)

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._pending or attempt in self._in_prolog

    @property
    def has_work(self) -> bool:
        """Whether `spawn_some` has work to do."""
        return bool(self._pending or self.failed or self._tasks.unfinished)

    def attempts(self) -> list[AttemptId]:
        """Return all of them."""
        return [*self._pending, *self._in_prolog]

    def admit(self, order: StartOrder, prepared: Prepared | NotStarted, wall_s: float) -> Intent:
        """Admit an order; the intent must be journalled before `spawn_some` is called.

        Raises `NotStarted`.
        """
        if isinstance(prepared, NotStarted):
            raise prepared
        if order.parallel is not None:
            words = seats_problem(order) or parallel_problem(prepared.spec)
            if words:
                raise NotStarted(EndCause.FAILED, words)
        if order.gpu_ids:
            order = self._with_cards(order)
        container = self._acquire(order)
        pending = _Pending(order, prepared, container)
        try:
            self._epilogs.owe(order, prepared)
        except NotStarted:
            self._drop(pending)
            raise
        self._pending[order.attempt] = pending
        return Intent(order.attempt, prepared.login.uid, container.number, prepared.digest, wall_s)

    def give_up(self, attempt: AttemptId) -> None:
        """Drop `attempt` without spawning it."""
        if attempt in self._in_prolog:
            pending = self._in_prolog.pop(attempt)
            self._parts.hooks.give_up(attempt)
        else:
            pending = self._pending.pop(attempt)
            self._prepared.pop(attempt, None)
        self._drop(pending)

    def spawn_some(self) -> list[tuple[Alive, int]]:
        """Spawn the next few; return them, each with the start time of its process."""
        started: list[tuple[Alive, int]] = []
        if not self._pending:
            return started
        self._parts.namespaces.follow_mounts()
        ready: list[tuple[_Pending, ReadyTask]] = []
        for attempt in list(self._pending)[:SPAWNS_A_TURN]:
            pending = self._pending.pop(attempt)
            if attempt in self._prepared:
                del self._prepared[attempt]
            elif self._parts.hooks.wants(PROLOG, attempt):
                self._begin_prolog(pending)
                continue
            task = self._ready(pending)
            if task is not None:
                ready.append((pending, task))
        # One after the other: a process that starts takes the processor's caches, and what was
        # done in between for the next one would begin without them.
        asked = [(*each, self._ask(*each)) for each in ready]
        running = [
            (pending, self._start(pending, each, asked=is_asked))
            for pending, each, is_asked in asked
            if is_asked is not None
        ]
        for pending, begun in running:
            if begun is not None:
                try:
                    self._watch.begin(begun)
                    self._leases.begin(begun, pending.order)
                except Exception as error:  # noqa: BLE001 - it costs this attempt alone
                    self._end_unwatched(begun, error)
                started.append((begun.alive, pending.container.started_ticks))
        return started

    def _end_unwatched(self, task: RunningTask, error: Exception) -> None:
        """End `task`, which runs although its limits cannot be enforced."""
        words = self._parts.defects.record(f"watching {task.attempt}", error, ENDED)
        self._tasks.end(task, LimitExceeded(EndCause.FAILED, words), 0.0, steady_s())

    def _begin_prolog(self, pending: _Pending) -> None:
        order, prepared, _ = pending
        attempt = order.attempt
        environment = hook_environment(order, prepared)
        words = uncleanness(environment)
        if words:
            self._drop(pending)
            self.failed.append((attempt, NotStarted(EndCause.FAILED, words)))
            return
        self._epilogs.begun(attempt)
        self._in_prolog[attempt] = pending
        self._parts.hooks.start(
            PROLOG, attempt, environment, lambda problem: self._prolog_ended(attempt, problem)
        )

    def _prolog_ended(self, attempt: AttemptId, problem: str) -> None:
        pending = self._in_prolog.pop(attempt)
        if not problem:
            self._pending[attempt] = pending
            self._prepared[attempt] = None
            return
        self._epilogs.forgive(attempt)
        self._drop(pending)
        self.failed.append((attempt, NotStarted(EndCause.REFUSED, problem)))

    def _drop(self, pending: _Pending) -> None:
        self._parts.containers.release(pending.container)
        self._parts.gpus.release(pending.order.attempt)
        if self._suspended.waiting:
            self._suspended.drop(pending.order.attempt)

    def _with_cards(self, order: StartOrder) -> StartOrder:
        """Return `order` with the cards that it has acquired."""
        try:
            return msgspec.structs.replace(order, gpu_ids=self._parts.gpus.acquire(order))
        except (CardTaken, OSError) as taken:
            raise NotStarted(EndCause.REFUSED, str(taken)) from None

    def _acquire(self, order: StartOrder) -> Containment:
        owner = self._parts.owner
        is_lowered = owner.lowers and owner.puts_behind(order.attempt)
        try:
            return self._parts.containers.acquire(is_lowered=is_lowered)
        except OSError as error:
            self._parts.gpus.release(order.attempt)
            raise NotStarted(EndCause.REFUSED, f"no control group: {error.strerror}") from error

    def _ready(self, pending: _Pending) -> ReadyTask | None:
        """Return the task with everything but a process; None: it cannot be started."""
        order, prepared, container = pending
        try:
            limits = prepared.limits
            if order.parallel is not None:
                limits = kernel_limits(spec_of_seat(prepared.spec, order.ranks))
            if order.gpu_ids:
                limits = limits._replace(gpu_ids=order.gpu_ids)
            container.prepare(limits)
            if container.is_lowered and not self._parts.owner.puts_behind(order.attempt):
                container.leave_idle(())
            if self._suspended.waiting or self._suspended.is_owner_here:
                self._suspended.prepare(order.attempt, container)
            return self._tasks.ready(prepared, order, container)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this attempt alone
            self._not_started(pending, error)
            return None

    def _ask(self, pending: _Pending, ready: ReadyTask) -> bool | None:
        """Ask for a task; None: it cannot be started."""
        now_s = steady_s()
        if not self._leases.may_start(pending.order, now_s):
            self._tasks.drop(ready)
            self._drop(pending)
            self.failed.append((pending.order.attempt, NotStarted(*OVER)))
            return None
        try:
            return self._tasks.ask(ready, now_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this attempt alone
            self._not_started(pending, error)
            return None

    def _start(self, pending: _Pending, ready: ReadyTask, *, asked: bool) -> RunningTask | None:
        """Start a task; None: it cannot be started."""
        try:
            task = self._tasks.start(ready, asked=asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this attempt alone
            self._not_started(pending, error)
            return None
        crash_point("after-spawn")
        if self._suspended.waiting or self._suspended.is_owner_here:
            self._suspended.started(task)
        return task

    def _not_started(self, pending: _Pending, error: Exception) -> None:
        """Give up an attempt that could not be started."""
        attempt, cause = pending.order.attempt, EndCause.FAILED
        if isinstance(error, NoDirectory):
            cause, text = EndCause.REFUSED, str(error)
        elif isinstance(error, OSError | ValueError):
            text = f"the task could not be started: {getattr(error, 'strerror', None) or error}"
        else:
            text = self._parts.defects.record(f"starting {attempt}", error)
        self._drop(pending)
        self.failed.append((attempt, NotStarted(cause, text)))

"""The launcher itself: messages in, messages out, with the journal between.

One turn takes everything in that is there, writes it down with a single sync, and only then acts:
intents are durable before anything is spawned, ends before they are reported.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from iriai.launcher.admission import Admission, NotStarted
from iriai.launcher.clock import steady_s, wall_s
from iriai.launcher.crash import crash_point
from iriai.launcher.enclosure import Enclosure, Enclosures
from iriai.launcher.journal import Dropped, Exits, Intent, Intents, Journal, Started
from iriai.launcher.limits import Crossed, kernel_limits
from iriai.launcher.messages import (
    LAUNCHER_VERSION,
    Alive,
    Attach,
    Enforcement,
    Exit,
    Exited,
    Forget,
    FromLauncher,
    Launch,
    Order,
    SampleAll,
    Sampled,
    ShutDown,
    Spawned,
    Terminate,
    ToLauncher,
    Welcome,
)
from iriai.launcher.spawn import Prepared
from iriai.launcher.task import Task
from iriai.launcher.tasks import Tasks
from iriai.launcher.timers import Timers
from iriai.launcher.watch import Watch
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage

log = logging.getLogger(__name__)

SPAWNS_A_TURN = 16
"""Between two looks at what ended and what was asked: more makes ends wait, fewer costs calls."""
SHUT_DOWN_GRACE_S = 5.0
"""What tasks get at most between SIGTERM and SIGKILL when the launcher ends."""
RETRY_S = 1.0
"""Until ends are written again that could not be (the disk is full)."""
SHUT_DOWN = Crossed(EndCause.EVICTED, "the launcher was shut down")


class _Pending(NamedTuple):
    """An attempt whose intent is durable and which was not spawned yet."""

    order: Order
    prepared: Prepared
    enclosure: Enclosure
    fd: int


class MessageProblem(Exception):
    """The daemon speaks another version of the messages, or does not keep to them."""


class Launcher:
    """Does what the daemon says, once."""

    def __init__(
        self,
        journal: Journal,
        tasks: Tasks,
        enclosures: Enclosures,
        admission: Admission,
        timers: Timers,
        enforcement: tuple[Enforcement, ...],
        wait_for: Callable[[int], None],
    ) -> None:
        """`wait_for` is called with descriptors of alarms (see Watch)."""
        self._journal = journal
        self._known = journal.known
        self._tasks = tasks
        self._enclosures = enclosures
        self._admission = admission
        self._timers = timers
        self._enforcement = enforcement
        self.watch = Watch(tasks, timers, wait_for)
        self._intents: list[Intent] = []
        """Not durable yet; each of them is pending too."""
        self._pending: dict[AttemptId, _Pending] = {}
        self._ends: list[Exit] = []
        """Known, not durable yet."""
        self._retry_s = 0.0
        """Not before this are ends written that could not be."""
        self._again: list[Alive] = []
        """Started before, asked for again."""
        self._exits_again: list[Exit] = []
        self._replies: list[FromLauncher] = []
        self._is_shutting_down = False
        self.children_ended = False
        """To be set when a child may have ended."""

    @property
    def has_work(self) -> bool:
        """Whether the next turn has something to do without waiting for anything."""
        return bool(self._pending) or (bool(self._ends) and steady_s() >= self._retry_s)

    @property
    def is_finished(self) -> bool:
        """Whether it was shut down, and everything has ended and been told."""
        return self._is_shutting_down and not (self._tasks or self._pending or self._ends)

    def attach(self, message: Attach) -> Welcome:
        """A daemon is there. Raises `MessageProblem`."""
        if message.version != LAUNCHER_VERSION:
            raise MessageProblem(
                f"the daemon speaks version {message.version} of the launcher's messages, this"
                f" launcher version {LAUNCHER_VERSION}"
            )
        self._admission.require_at_least(message.run_minimum_uid)
        # An end that is not durable yet is not told; until it is, its task counts as running.
        unwritten = (Alive(end.attempt, 0, end.started_wall_s) for end in self._ends)
        alive = (*(task.alive for task in self._tasks), *unwritten)
        ended = tuple(self._known.exits.values())
        boot = self._known.boot
        assert boot is not None
        return Welcome(LAUNCHER_VERSION, os.getpid(), boot.boot_id, self._enforcement, alive, ended)

    def handle(self, message: ToLauncher, descriptors: Sequence[int]) -> None:
        """Take one message in. `descriptors` came with it and are closed here."""
        match message:
            case Launch():
                self._launch(message, deque(descriptors))
            case Terminate():
                reason = Crossed(message.cause, "")
                for attempt in message.attempts:
                    self._terminate(attempt, reason, message.grace_s)
            case Forget():
                self._note(Dropped(message.attempts))
            case SampleAll():
                self._replies.append(Sampled(tuple(map(_sample, self._tasks))))
            case ShutDown():
                self.shut_down()
            case Attach():
                self._replies.append(self.attach(message))

    def shut_down(self) -> None:
        """End all tasks; nothing is started from here on."""
        log.info("shutting down, %d tasks run", len(self._tasks))
        self._is_shutting_down = True
        for attempt in list(self._pending):
            self._terminate(attempt, SHUT_DOWN, 0.0)
        for task in list(self._tasks):
            grace_s = min(task.spec.kill_grace_s, SHUT_DOWN_GRACE_S)
            self._tasks.end(task, SHUT_DOWN, grace_s, steady_s())

    def turn(self) -> list[FromLauncher]:
        """Do what is due; returns what the daemon is to be told."""
        if self.children_ended:
            self.children_ended = False
            self._tasks.reap()
        self._timers.run_due(steady_s())
        self._timers.drop_stale(len(self._tasks))
        ends = self._exits_again + self._write()
        started = self._spawn_some()
        if started:
            self._note(Started(tuple(started)))
        alive = self._again + [each for each, _ in started]
        told, self._replies = self._replies, []
        if ends:
            told.append(Exited(tuple(ends)))
            self._exits_again = []
        if alive:
            told.append(Spawned(tuple(alive)))
            self._again = []
        return told

    def next_s(self) -> float | None:
        """When a turn is due on the steady clock although nothing happened."""
        due_s = self._timers.next_s()
        if self._ends:
            due_s = min(self._retry_s, due_s or self._retry_s)
        return due_s

    def _note(self, record: Dropped | Started) -> None:
        """Write what need not be durable; where that fails a question is asked again later."""
        try:
            self._journal.append(record, sync=False)
            self._journal.compact_if_grown()
        except OSError:
            log.exception("the journal could not be written")

    def _launch(self, message: Launch, descriptors: deque[int]) -> None:
        if any(not 0 <= order.template < len(message.templates) for order in message.orders):
            raise MessageProblem("an order names a template that is not there")
        now_wall_s = wall_s()
        prepared = [self._admission.prepare(each, steady_s()) for each in message.templates]
        for order in message.orders:
            fd = descriptors.popleft() if order.descriptors and descriptors else -1
            if self._is_known(order.attempt):
                _close(fd)
                continue
            try:
                pending = self._admit(order, prepared[order.template], fd)
            except NotStarted as refusal:
                self._not_started(order.attempt, refusal)
                _close(fd)
                continue
            self._pending[order.attempt] = pending
            login, digest = pending.prepared.login, pending.prepared.digest
            number = pending.enclosure.number
            self._intents.append(Intent(order.attempt, login.uid, number, digest, now_wall_s))
        for fd in descriptors:
            _close(fd)

    def _is_known(self, attempt: AttemptId) -> bool:
        """Whether `attempt` began before; what is known of it is then reported again."""
        task = self._tasks.get(attempt)
        if task is not None:
            self._again.append(task.alive)
        elif attempt in self._known.exits:
            self._exits_again.append(self._known.exits[attempt])
        elif attempt in self._known.forgotten:
            text = "this attempt ended here before, and its end was acknowledged"
            self._not_started(attempt, NotStarted(EndCause.REFUSED, text))
        else:
            return attempt in self._known.intents or attempt in self._pending
        return True

    def _admit(self, order: Order, prepared: Prepared | NotStarted, fd: int) -> _Pending:
        if self._is_shutting_down:
            raise NotStarted(EndCause.REFUSED, "the launcher is shutting down")
        if isinstance(prepared, NotStarted):
            raise prepared
        self._admission.check(order, prepared, has_descriptor=fd >= 0)
        try:
            enclosure = self._enclosures.acquire()
        except OSError as error:
            raise NotStarted(EndCause.REFUSED, f"no control group: {error.strerror}") from error
        return _Pending(order, prepared, enclosure, fd)

    def _spawn_some(self) -> list[tuple[Alive, int]]:
        started = []
        for attempt in list(self._pending)[:SPAWNS_A_TURN]:
            pending = self._pending.pop(attempt)
            task = self._spawn(pending)
            _close(pending.fd)
            if task is None:
                self._enclosures.release(pending.enclosure)
                continue
            self.watch.begin(task)
            started.append((task.alive, pending.enclosure.started_ticks))
            crash_point("after-spawn")
        return started

    def _spawn(self, pending: _Pending) -> Task | None:
        order, prepared, enclosure, fd = pending
        try:
            enclosure.prepare(kernel_limits(prepared.spec))
            return self._tasks.start(prepared, order, enclosure, fd)
        except (OSError, ValueError) as error:
            text = f"the task could not be started: {getattr(error, 'strerror', None) or error}"
            self._not_started(order.attempt, NotStarted(EndCause.FAILED, text))
            return None

    def _terminate(self, attempt: AttemptId, reason: Crossed, grace_s: float) -> None:
        task = self._tasks.get(attempt)
        if task is not None:
            self._tasks.end(task, reason, grace_s, steady_s())
        elif attempt in self._pending:
            self._give_up(attempt, NotStarted(reason.cause, reason.message))

    def _give_up(self, attempt: AttemptId, why: NotStarted) -> None:
        pending = self._pending.pop(attempt)
        _close(pending.fd)
        self._enclosures.release(pending.enclosure)
        self._not_started(attempt, why)

    def _not_started(self, attempt: AttemptId, why: NotStarted) -> None:
        now_s = wall_s()
        self._ends.append(
            Exit(attempt, why.cause, why.exit_code, None, Usage(), now_s, now_s, 0.0, why.message)
        )

    def _write(self) -> list[Exit]:
        """Make new intents and ends durable; returns the ends, or nothing where that failed."""
        self._ends += self._tasks.take_ends()
        intents, self._intents = self._intents, []
        if not intents and (not self._ends or steady_s() < self._retry_s):
            return []
        records: list[Intents | Exits] = [Intents(tuple(intents))] if intents else []
        if self._ends:
            crash_point("before-exit-journal")
            records.append(Exits(tuple(self._ends)))
        try:
            self._journal.append(*records, sync=True)
        except OSError as error:
            log.exception("%d intents, %d ends not written", len(intents), len(self._ends))
            self._retry_s = steady_s() + RETRY_S
            text = f"the launcher's journal could not be written: {error.strerror}"
            for intent in intents:
                if intent.attempt in self._pending:
                    self._give_up(intent.attempt, NotStarted(EndCause.REFUSED, text))
            return []
        if intents:
            crash_point("after-intent")
        if self._ends:
            crash_point("after-exit-journal")
        written, self._ends = self._ends, []
        return written


def _sample(task: Task) -> tuple[AttemptId, Usage]:
    return task.attempt, task.usage_now()


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)

"""The turns of one machine: events in, one decision, one write, then effects out.

Everything that arrives within one round of the event loop is one turn. While tasks
queue the writer commits in its own thread: turns go on meanwhile, and their writes are gathered
into the next commit. Otherwise it commits at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from iriai.daemon.loop.pending import Pending
from iriai.daemon.loop.routes import CoreFailed, JobStored, NotificationDue, Outgoing, Routes
from iriai.launcher.system.crash_points import crash_point, crash_points_before
from iriai.machine.core import Machine
from iriai.machine.events import MachineEvent
from iriai.machine.outbox import Outbox, Turn
from iriai.model.instant import Instant
from iriai.model.problem import Problem
from iriai.model.records import JobEvent
from iriai.policy.service.allowances import HeldJobs
from iriai.protocol.messages.effects import (
    AttemptExited,
    Delivered,
    Effect,
    JobCompleted,
    LaunchAttempt,
    LauncherEvent,
    Part,
    PeerNoticed,
    PolicyFailed,
    ReservationAnswered,
    ReservationNewsDue,
    Send,
    StepChanged,
    Wake,
    WakeAt,
    WhyAnswered,
)
from iriai.store.writer import Writer
from iriai.system.clock import now as read_clocks
from iriai.wire.parts import tag_of

LOOK_S = 2.0
FREED_MIN_BYTES = 4 << 20
"""Of jobs: with less, the process uses the memory again itself."""
QUIET = 0.25
"""Part of what was freed since the last release: while more is freed between two polls, jobs still
finish, and the release waits."""
GATHER_S = 0.004
"""The least time between turns in a stream; as the launcher gathers (`iriai.launcher.server`). It
is little beside what a task's start costs, and several machines' messages come within it."""
STREAM_GAP_S = 3 * GATHER_S
"""Turns that follow each other within this are a stream: with fewer there is nothing to gather."""
STREAM_TURNS = 8
"""So many in a row, before turns are spaced: a single job, from its submission to its end, has
three, and must not wait."""


def give_back() -> None:
    """Return the memory that the C library keeps for later to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # of glibc alone
        trim(0)


class FreedMemory:
    """Returns the memory of finished jobs to the system, once few finish any more."""

    def __init__(
        self, engine: Engine, freed: HeldJobs, give_back: Callable[[], None] = give_back
    ) -> None:
        self._engine = engine
        self._freed = freed
        self._give_back = give_back
        self._seen_bytes = self._given_bytes = freed.freed_bytes

    def begin(self) -> None:
        """Start to poll."""
        self._engine.later(LOOK_S, self._poll)

    def _poll(self) -> None:
        now_bytes = self._freed.freed_bytes
        lately, in_all = now_bytes - self._seen_bytes, now_bytes - self._given_bytes
        self._seen_bytes = now_bytes
        if in_all >= FREED_MIN_BYTES and lately <= QUIET * in_all:
            self._given_bytes = now_bytes
            self._give_back()
        self._engine.later(LOOK_S, self._poll)


class TurnBatching:
    """Delays turns that nobody here waits for, to batch them. Times are of a steady clock.

    Each of several busy machines sends what happened there in a message of its own. A turn for each
    would be a pass, a commit and an answer for each. In a stream of news turns are therefore some
    milliseconds apart, so that one serves what has come meanwhile from all; news after a silence,
    and what users and timers ask, is never held back.
    """

    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._in_a_row = 0

    def turned(self, now_s: float) -> None:
        """Note the begin of a turn."""
        if now_s - self._last_s <= STREAM_GAP_S:
            self._in_a_row += 1
        else:
            self._in_a_row = 0
        self._last_s = now_s

    def rest_s(self, now_s: float) -> float:
        """Return how long a message of another machine waits for more; 0 or less: not at all."""
        if self._in_a_row < STREAM_TURNS:
            return 0.0
        return self._last_s + GATHER_S - now_s


T = TypeVar("T")


class LauncherOrders(Protocol):
    """Sends the orders of cores to the launcher; a batch for each turn."""

    def perform(self, effects: list[Effect]) -> None:
        """Send these orders, in order."""
        ...


ROUTED = frozenset(
    {JobCompleted, PeerNoticed, PolicyFailed, ReservationAnswered, ReservationNewsDue, StepChanged}
    | {WhyAnswered}
)
"""Effects that others of this daemon take."""


class Leaving(NamedTuple):
    """What leaves the cores at the end of a turn."""

    sends: list[Send]
    """Messages to other machines."""
    orders: list[Effect]
    """Of the launcher."""
    news: list[Effect]
    """What others of this daemon take."""
    answers: list[Callable[[], None]]
    """To requests."""
    changed: dict[int, None]
    """Jobs with an event."""


class Engine:
    """Drives the cores of one machine."""

    def __init__(
        self,
        machine: Machine,
        writer: Writer,
        launcher: LauncherOrders,
        home: str,
        routes: Routes,
    ) -> None:
        self.machine = machine
        self.outbox = Outbox()
        self.routes = routes
        """Takers of effects, once these are durable."""
        self._writer = writer
        self._launcher = launcher
        self._loop = asyncio.get_running_loop()
        self._home = home
        self.clients_waiting = 0
        """How many wait for the end of a task; counted by those who serve them."""
        self.now = read_clocks(f"{home}:0")
        """The moment of this turn, or of the last."""
        self._turns = 0
        self._events: list[MachineEvent] = []
        self._requests: list[Callable[[Instant], None]] = []
        self._answers: list[Callable[[], None]] = []
        self._is_scheduled = False
        self._pace = TurnBatching()
        self._gathering: asyncio.TimerHandle | None = None
        self._alarms: dict[Part, asyncio.TimerHandle] = {}

    def event(self, event: MachineEvent) -> None:
        """Handle an event in the next turn."""
        self._events.append(event)
        self._schedule()

    def news(self, event: Delivered) -> None:
        """Handle a message of another machine; in a stream of them, one turn handles several."""
        self._events.append(event)
        self._gather()

    def report(self, event: LauncherEvent) -> None:
        """Handle an event of the launcher.

        An end that nobody waits for, in a stream of turns, may wait for what comes next.
        """
        self._events.append(event)
        is_own = type(event) is AttemptExited and event.attempt.home == self._home
        if is_own and not (self.clients_waiting or self.machine.has_queue):
            self._gather()
        else:
            self._schedule()

    def _gather(self) -> None:
        if self._is_scheduled or self._gathering is not None:
            return
        rest_s = self._pace.rest_s(self._loop.time())
        if rest_s > 0.0:
            self._gathering = self._loop.call_later(rest_s, self.turn)
        else:
            self._schedule()

    def request(self, request: Callable[[Instant], None]) -> None:
        """Call `request` within the next turn, after its events."""
        self._requests.append(request)
        self._schedule()

    def after_this_turn(self, action: Callable[[], None]) -> None:
        """Perform `action` once all that this turn writes is durable. Only from a request."""
        self._answers.append(action)

    def written(self) -> Pending[None]:
        """Await until all that this turn writes is durable. Only within a turn."""
        pending: Pending[None] = Pending(is_immediate=True)
        self._answers.append(partial(pending.resolve, None))
        return pending

    def answer_of_thread(self, ask: Callable[[], T]) -> Pending[T]:
        """Await what `ask` returns, called in a thread."""
        pending: Pending[T] = Pending()

        def tell(future: asyncio.Future[T]) -> None:
            try:
                pending.resolve(future.result())
            except Problem as problem:
                pending.fail(problem)

        self.in_thread(ask, tell)
        return pending

    def in_thread(self, ask: Callable[[], T], tell: Callable[[asyncio.Future[T]], None]) -> None:
        """Call `ask` in a thread, and `tell` here with its future: for long queries."""
        self._loop.run_in_executor(None, ask).add_done_callback(tell)

    def soon(self, action: Callable[[], None]) -> None:
        """Call `action` at the end of this round of the event loop."""
        self._loop.call_soon(action)

    def steady_s(self) -> float:
        """Return the time of the event loop, on which `later` is based."""
        return self._loop.time()

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` after `delay_s`."""
        self._loop.call_later(delay_s, action)

    def durable(self, sequence: int) -> None:
        """Release the effects behind the write `sequence`, which is durable; in the event loop."""
        crash_point("after-commit")
        self.outbox.durable(sequence)

    def turn(self) -> None:
        """Handle all events and requests that have arrived; the collector waits meanwhile."""
        gc.disable()
        try:
            self._turn()
        finally:
            gc.enable()

    def _turn(self) -> None:
        self._is_scheduled = False
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._pace.turned(self._loop.time())
        self._turns += 1
        now = self.now = read_clocks(f"{self._home}:{self._turns}")
        events, self._events = self._events, []
        requests, self._requests = self._requests, []
        self._answers = []
        try:
            for event in events:
                self.machine.handle(event, now)
        except Exception as error:
            if type(event) is Delivered:
                self.routes.tell(CoreFailed(event.sender, tag_of(event.message), error))
            raise
        for request in requests:
            request(now)
        self._finish(self.machine.end_turn(now), now)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.turn)

    def _finish(self, turn: Turn, now: Instant) -> None:
        if turn.records:
            crash_point("before-commit")
            # With a queue others go on meanwhile; without one whoever asked waits for this alone.
            sequence = self._writer.submit(
                turn.records, urgent=turn.is_urgent, may_wait=not self.machine.has_queue
            )
            if turn.is_urgent:
                self.outbox.close_gate(sequence)
            if self._writer.durable >= sequence:
                self.durable(sequence)
        leaving = sends, orders, news, _, changed = Leaving([], [], [], self._answers, {})
        for record in turn.records:
            if type(record) is JobEvent:
                changed[record.number] = None
        for effect in turn.outward:
            if type(effect) is WakeAt:
                self._set_alarm(effect, now)
            elif type(effect) is Send:
                sends.append(effect)
            elif type(effect) in ROUTED:
                news.append(effect)
            else:
                orders.append(effect)
        if any(leaving):
            self.outbox.send(partial(self._leave, leaving))

    def _leave(self, leaving: Leaving) -> None:
        """Perform the effects of a turn, whose records are durable."""
        tell = self.routes.tell
        if leaving.sends:
            crash_points_before(send.message for send in leaving.sends)
            tell(Outgoing(leaving.sends))
        if leaving.orders:
            self._launcher.perform(leaving.orders)
            if any(type(each) is LaunchAttempt for each in leaving.orders):
                crash_point("after-launch-sent")
        for answer in leaving.answers:
            answer()
        for number in leaving.changed:
            tell(JobStored(number))
        for effect in leaving.news:
            tell(effect)
            if type(effect) is JobCompleted and effect.has_notice:
                tell(NotificationDue(effect.number))

    def _set_alarm(self, wake: WakeAt, now: Instant) -> None:
        alarm = self._alarms.pop(wake.part, None)
        if alarm is not None:
            alarm.cancel()
        delay_s = max(0.0, wake.steady_s - now.steady_s)
        self._alarms[wake.part] = self._loop.call_later(delay_s, self.event, Wake(wake.part))

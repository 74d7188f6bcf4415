"""Relays streams between the machines where tasks run and their homes."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.loop.routes import Outgoing, OutputGrown, StreamMessage
from iriai.daemon.tasks.spool import Spool
from iriai.daemon.tasks.spool_cleanup import OF_OTHERS_KEPT_S, SWEEP_S, drop_of_others
from iriai.daemon.tasks.task_streams import TaskStreams
from iriai.home.output_copies import CopyKey, OutputCopies
from iriai.model.ids import AttemptId
from iriai.model.problem import Refused, Unreachable
from iriai.model.submission import INPUT_BYTES_MAX, Interaction
from iriai.node.output_source import OutputSource
from iriai.protocol.messages.effects import (
    LinkDown,
    LinkUp,
    Part,
    Send,
    StepChanged,
)
from iriai.protocol.messages.scheduling import Begun
from iriai.protocol.messages.streams import AskOutput, Input, InputTaken, Output
from iriai.wire.requests import TOO_MUCH_INPUT, OutputPiece

log = logging.getLogger(__name__)

READ_BYTES = 512 << 10
"""Of one answer to a client."""
INPUT_ANSWER_S = 20.0
"""Time after which a client is asked to send its input again: the machine may have restarted."""
INPUTS_MAX = 256
"""Pieces of input of one task that are not answered."""


class _PendingInput(Pending[InputTaken]):
    """A piece of input that is not answered."""

    __slots__ = ("size_bytes",)

    def __init__(self, size_bytes: int) -> None:
        super().__init__(is_immediate=True)
        self.size_bytes = size_bytes


class StreamRelay:
    """The streams of tasks, as their home and as other homes' machine."""

    def __init__(self, engine: Engine, spool: Spool, tasks: TaskStreams) -> None:
        self._engine = engine
        self._spool = spool
        self._tasks = tasks
        self._name = engine.machine.name
        self._loop = asyncio.get_running_loop()
        self._source = OutputSource(spool.read_here, spool.size_bytes, self._runs)
        self._copies = OutputCopies(spool, self._is_awaited)
        self._timer: asyncio.TimerHandle | None = None
        self._inputs: dict[AttemptId, list[_PendingInput]] = {}
        self._machines: dict[AttemptId, str] = {}
        """Where each of the inputs goes."""
        self._looks: dict[CopyKey, list[Pending[None]]] = {}
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)
        engine.routes.take(OutputGrown, self._grown)
        engine.routes.take(StreamMessage, self._receive)
        engine.routes.take(Begun, self._began)
        engine.routes.take(StepChanged, self._step_changed)
        engine.routes.take(LinkUp, self._linked)
        engine.routes.take(LinkDown, self._unlinked)

    def close(self) -> None:
        """Stop."""
        for timer in (self._sweeping, self._timer):
            if timer is not None:
                timer.cancel()

    # --- for clients -----------------------------------------------------------------------------

    def follow(self, attempt: AttemptId, machine: str) -> None:
        """Fetch output from the machine where an attempt runs or ran, unless it is this one."""
        if machine not in ("", self._name):
            self._send(self._copies.begin(attempt, machine, self._now_s()))

    def machine_of(self, attempt: AttemptId) -> str:
        """Return where the output of an attempt that is over comes from; empty: it is here."""
        return self._copies.machine_of(attempt)

    async def read(
        self, attempt: AttemptId, machine: str, kind: str, offset: int, wait_s: float
    ) -> OutputPiece:
        """Return output from `offset` on; where there is none yet, wait for it up to `wait_s`."""
        key = CopyKey(attempt, kind)
        piece = self._piece(key, machine, offset)
        if piece.content or piece.is_complete or wait_s <= 0:
            return piece
        look: Pending[None] = Pending(is_immediate=True)
        self._looks.setdefault(key, []).append(look)
        timer = self._loop.call_later(wait_s, look.resolve, None)
        try:
            await look
        finally:
            timer.cancel()
            self._forget_look(key, look)
        return self._piece(key, machine, offset)

    async def input(self, machine: str, message: Input) -> InputTaken:
        """Pass input on to a task; return how far it has come, once that is known.

        Raises `Refused` if too much of it is not answered, and `Unreachable` if the machine is.
        """
        attempt, pending = message.attempt, _PendingInput(len(message.content))
        inputs = self._inputs.setdefault(attempt, [])
        waiting_bytes = sum(each.size_bytes for each in inputs)
        if inputs and (waiting_bytes > INPUT_BYTES_MAX or len(inputs) >= INPUTS_MAX):
            raise Refused(TOO_MUCH_INPUT, f"{attempt.task} has not read the input before this")
        inputs.append(pending)
        is_far = machine not in ("", self._name)
        try:
            if not is_far:
                self._tasks.input(message, pending.resolve)
                return await pending
            self._machines[attempt] = machine
            lost = Unreachable("no-answer", f"{machine} has not taken the input of {attempt.task}")
            timer = self._loop.call_later(INPUT_ANSWER_S, pending.fail, lost)
            self._send([Send(machine, Part.STREAMS, message)])
            try:
                return await pending
            finally:
                timer.cancel()
        finally:
            self._forget_input(attempt, pending)

    def abandon(self, machine: str, message: Input) -> None:
        """Tell a task's machine that its client is gone."""
        if machine in ("", self._name):
            self._tasks.input(message, lambda _: None)
        else:
            self._send([Send(machine, Part.STREAMS, message)])

    # --- events ----------------------------------------------------------------------------------

    def _began(self, begun: Begun) -> None:
        """Fetch the output of a task that began elsewhere, if a client follows it."""
        home = self._engine.machine.home
        job = home.jobs.get(begun.attempt.number)
        is_followed = job is not None and job.spec.interaction is not Interaction.BATCH
        if job is not None and is_followed and home.waits_for(begun.attempt, begun.machine):
            ranks = job.tasks[begun.attempt.index].ranks_of(begun.attempt.rank)
            first = begun.attempt.rank
            for rank in range(first, first + (ranks if job.spec.streams_each else first == 0)):
                self.follow(begun.attempt.seat(rank), begun.machine)

    def _step_changed(self, changed: StepChanged) -> None:
        """Fetch the output of a job step that runs elsewhere: a client follows it."""
        self.follow(changed.step, self._engine.machine.home.steps.machine_of(changed.step))

    def forget(self, step: AttemptId) -> None:
        """Delete the output of a job step, whose client has all of it."""
        self._copies.forget(step)
        self._spool.delete(step)

    def exited(self, attempt: AttemptId) -> None:
        """Send the rest of the output of another home's seat, or job step, which is over."""
        now_s, first = self._now_s(), attempt.rank
        ranks = 1 if attempt.step else self._engine.machine.node.ranks_of(attempt)
        for rank in range(first, first + ranks):
            self._send(self._source.ended(attempt._replace(rank=rank), now_s))

    def _linked(self, event: LinkUp) -> None:
        """Ask again what a machine was asked before its link broke."""
        self._send(self._copies.linked(event.machine, self._now_s()))
        self._unlinked(event)

    def _unlinked(self, event: LinkUp | LinkDown) -> None:
        """Input that was not acknowledged has to be sent again."""
        lost = Unreachable("link-lost", f"the link to {event.machine} broke")
        for attempt, machine in list(self._machines.items()):
            if machine == event.machine:
                for pending in list(self._inputs.get(attempt, ())):
                    pending.fail(lost)

    def _receive(self, received: StreamMessage) -> None:
        sender, message = received
        match message:
            case AskOutput():
                self._send(self._source.ask(message, self._now_s()))
            case Output():
                self._send(self._copies.receive(sender, message, self._now_s()))
                self._awake(CopyKey(message.attempt, message.kind))
            case Input():
                self._tasks.input(message, partial(self._answer, sender))
            case InputTaken():
                if self._machines.get(message.attempt) == sender:
                    for pending in self._inputs.get(message.attempt, ())[:1]:
                        pending.resolve(message)

    def _answer(self, home: str, taken: InputTaken) -> None:
        self._send([Send(home, Part.STREAMS, taken)])

    def _grown(self, grown: OutputGrown) -> None:
        if grown.attempt.home == self._name:
            self._awake(CopyKey(*grown))
        else:
            self._send(self._source.grown(*grown, self._now_s()))

    # --- state -----------------------------------------------------------------------------------

    def _runs(self, attempt: AttemptId) -> bool:
        """Return whether an attempt may print more here."""
        machine = self._engine.machine
        if Part.NODE in machine.parts:
            node = machine.node
            if node.steps.runs(attempt) if attempt.step else node.has_place(attempt):
                return True
        return attempt in self._tasks

    def _is_awaited(self, attempt: AttemptId) -> bool:
        """Return whether this home waits for the end of an attempt."""
        machine = self._engine.machine
        return Part.HOME in machine.parts and machine.home.waits_for(attempt)

    def _piece(self, key: CopyKey, machine: str, offset: int) -> OutputPiece:
        try:
            content = self._spool.read(*key, offset, READ_BYTES)
        except OSError as error:
            problem = f"it cannot be read here: {error.strerror}"
            return OutputPiece(b"", is_complete=True, problem=problem)
        if machine not in ("", self._name):
            is_complete, problem = self._copies.state(key, offset + len(content))
            return OutputPiece(content, is_complete, problem)
        is_complete = not content and not self._is_awaited(key.attempt)
        return OutputPiece(content, is_complete)

    def _awake(self, key: CopyKey) -> None:
        for look in self._looks.get(key, ())[:]:
            look.resolve(None)

    def _forget_look(self, key: CopyKey, look: Pending[None]) -> None:
        looks = self._looks.get(key, [])
        looks.remove(look)
        if not looks:
            self._looks.pop(key, None)

    def _forget_input(self, attempt: AttemptId, pending: _PendingInput) -> None:
        pendings = self._inputs.get(attempt, [])
        pendings.remove(pending)
        if not pendings:
            self._inputs.pop(attempt, None)
            self._machines.pop(attempt, None)

    def _send(self, sends: list[Send]) -> None:
        if sends:
            self._engine.routes.tell(Outgoing(sends))
        self._set_timer()

    def _set_timer(self) -> None:
        due = (self._source.next_s(), self._copies.next_s())
        next_s = min((each for each in due if each is not None), default=None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_s is not None:
            delay_s = max(0.0, next_s - self._now_s())
            self._timer = self._loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        now_s = self._now_s()
        self._send(self._source.wake(now_s) + self._copies.wake(now_s))

    def _now_s(self) -> float:
        return self._loop.time()

    def _sweep(self) -> None:
        """Delete, periodically, files of other homes that are no longer requested."""
        machine = self._engine.machine
        running = frozenset(machine.node.calendar) if Part.NODE in machine.parts else frozenset()
        until_wall_s = time.time() - OF_OTHERS_KEPT_S

        def sweep() -> int:
            return drop_of_others(self._spool.directory, self._name, running, until_wall_s)

        self._engine.in_thread(sweep, _tell_swept)
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)


def _tell_swept(result: asyncio.Future[int]) -> None:
    problem = result.exception()
    if isinstance(problem, OSError):
        log.warning("old output of other homes' tasks was not deleted: %s", problem)
    elif problem is not None:
        raise problem
    elif result.result():
        log.info("%d files of old output of other homes' tasks are deleted", result.result())

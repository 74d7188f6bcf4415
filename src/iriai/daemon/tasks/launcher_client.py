"""The connection to the launcher: reconnects, sends orders in batches, receives events."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import astuple

from iriai.daemon.loop.routes import EpilogFailed, LauncherOrder, LauncherReady, NoticeEnded, Routes
from iriai.daemon.tasks.task_streams import TaskStreams
from iriai.daemon.transport.socket_stream import FramedStream
from iriai.jobs.payloads import PayloadStore
from iriai.launcher.contract.machine_config import PROLOG
from iriai.launcher.contract.messages import (
    EXIT_NOT_RUN,
    FRAME_BYTES_MAX,
    LAUNCHER_VERSION,
    Alive,
    Attach,
    Attached,
    Defective,
    Discard,
    Enforced,
    Enforcement,
    Exit,
    Exited,
    Freeze,
    FreezeOrder,
    FromLauncher,
    Frozen,
    HookFailed,
    Launch,
    OwnerSeen,
    ParallelSeat,
    Prolong,
    SampleAll,
    Sampled,
    SeatBarrier,
    SeatHost,
    SetCycle,
    SetStandingOrder,
    ShutDown,
    Spawned,
    StartOrder,
    StartStep,
    StreamEnds,
    StreamKind,
    Template,
    Terminate,
    ToLauncher,
    VersionRefused,
)
from iriai.model.bounds import decoded
from iriai.model.ids import NOTICE_ATTEMPT, AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptFrozen,
    AttemptsSampled,
    AttemptStarted,
    Effect,
    ForgetAttempt,
    FreezeAttempt,
    LaunchAttempt,
    LauncherAttached,
    LauncherEvent,
    LauncherLost,
    LaunchStep,
    OrderCycle,
    OwnerNoticed,
    PrologFailed,
    RenewLeases,
    SampleAttempts,
    StepExited,
    StepStarted,
    TerminateAttempt,
    WatchOwner,
)
from iriai.protocol.messages.steps import Step
from iriai.system.clock import steady_s
from iriai.system.frames import frame
from iriai.system.internal_errors import trouble_line

log = logging.getLogger(__name__)

RETRY_S = 0.05
"""First pause between attempts to connect: a launcher that was killed is back within a few of them.
"""
RETRY_MAX_S = 2.0
"""The longest pause while no launcher answers."""

LAUNCH_BYTES_MAX = 16 << 20
"""Texts of the jobs in one message; more jobs go into the next. Less would cost nothing either: it
is the launcher's largest memory use at once, except for a larger single job."""
TEMPLATE_BYTES_MAX = FRAME_BYTES_MAX - (16 << 20)
"""Texts of one job: its order fits into a frame with them."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[FromLauncher] = msgspec.msgpack.Decoder(FromLauncher)


class _Batch:
    """The content of one `Launch`."""

    def __init__(self) -> None:
        self.templates: list[Template] = []
        self.places: dict[tuple[str, int], int] = {}
        """Positions of templates, by job."""
        self.orders: list[StartOrder] = []
        self.size_bytes = 0
        """Bytes of the templates' texts."""


class LauncherClient:
    """The connection to the launcher. Without one, orders are dropped: the node repeats them."""

    def __init__(
        self,
        path: str,
        minimum_uid: int,
        payloads: PayloadStore,
        streams: TaskStreams,
        on_event: Callable[[LauncherEvent], None],
        routes: Routes,
        host_of: Callable[[str], str] = str,
    ) -> None:
        """`on_event` takes what concerns attempts; notifications and hooks are told to `routes`.

        `host_of` returns the address, without a port, at which others reach a machine.
        """
        self._host_of = host_of
        self._path = path
        self._minimum_uid = minimum_uid
        self._payloads = payloads
        self._streams = streams
        self._on_event = on_event
        self._routes = routes
        routes.take(LauncherOrder, lambda order: self._send(order.message))
        self.welcome: Attached | None = None
        """Data of the connected launcher; None: none is connected."""
        self._defective: Defective | None = None
        """Data of the launcher that was connected last."""
        self._stream: FramedStream | None = None
        self._unsent: list[bytes] = []
        self._is_closing = False
        self._on_over: Callable[[], None] | None = None
        self._other_version: int | None = None
        """The version of a launcher that refused this daemon's."""
        self._pause_s = RETRY_S
        self._loop = asyncio.get_running_loop()

    def connect(self) -> None:
        """Connect to the launcher, and retry until it answers."""
        if self._is_closing:
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            self._loop.call_later(self._pause_s, self.connect)
            self._pause_s = min(RETRY_MAX_S, self._pause_s * 1.5)
            return
        self._stream = FramedStream(connection, self._frames, self._closed)
        self._send(Attach(LAUNCHER_VERSION, self._minimum_uid))

    def perform(self, effects: list[Effect]) -> None:
        """Send orders in as few messages as their order allows."""
        if self.welcome is None:
            return
        launches: list[LaunchAttempt] = []
        forgotten: list[AttemptId] = []
        freezes: list[FreezeOrder] = []
        standing: dict[type, SetCycle | SetStandingOrder] = {}
        for effect in effects:
            match effect:
                case LaunchAttempt():
                    launches.append(effect)
                case LaunchStep(step):
                    self._send(_start_of(step))
                case ForgetAttempt(attempt):
                    forgotten.append(attempt)
                    if attempt.step:
                        self._streams.forget(attempt)
                case FreezeAttempt(attempt, number, reasons):
                    freezes.append(FreezeOrder(attempt, number, reasons))
                case OrderCycle() | WatchOwner():
                    standing[type(effect)] = _standing(effect)
                case TerminateAttempt(attempt, cause, grace_s, message):
                    self._launch(launches)
                    launches = []
                    self._send(Terminate((attempt,), cause, grace_s, message))
                case RenewLeases(home, asked_steady_s):
                    self._send(Prolong(home, asked_steady_s))
                case SampleAttempts():
                    self._send(SampleAll())
                case _:
                    raise TypeError(f"{effect} is not for a launcher")
        for order in standing.values():  # before the starts of those that it names
            self._send(order)
        self._launch(launches)
        if freezes:  # after the starts of those that are started frozen
            self._send(Freeze(tuple(freezes)))
        if forgotten:
            self._send(Discard(tuple(forgotten)))

    def launch_notice(self, template: Template, order: StartOrder) -> None:
        """Order a notification; without a launcher it is dropped, as orders are."""
        if self.welcome is not None:
            self._send(Launch((template,), (order,)))

    def forget_notice(self, attempt: AttemptId) -> None:
        """Let the launcher forget a notification whose end is stored."""
        if self.welcome is not None:
            self._send(Discard((attempt,)))

    def shut_down(self, on_over: Callable[[], None]) -> None:
        """Make the launcher end every task and itself; call `on_over` once it has exited."""
        self._is_closing = True
        if self._stream is None:
            on_over()
            return
        self._on_over = on_over
        self._send(ShutDown())

    def close(self) -> None:
        """Leave the launcher alone with its tasks."""
        self._is_closing = True
        self._flush()
        if self._stream is not None:
            self._stream.close("the daemon ends")

    def trouble(self) -> list[str]:
        """Return what is wrong with the launcher, for `status` and `doctor`."""
        if self._other_version is not None:
            words = (
                f"the launcher uses version {self._other_version} of the protocol with its daemon, "
                f"this daemon version {LAUNCHER_VERSION}: its tasks go on until their "
                "leases are over, and nothing is started; once they may end: 'iriai down', "
                "'iriai down --kill', 'iriai up'"
            )
            return [words]
        if self._defective is None:
            return []
        did = "in the launcher affected an attempt or a message"
        return [trouble_line(did, self._defective.count, self._defective.last, "launcher")]

    def _launch(self, launches: list[LaunchAttempt]) -> None:
        batch = _Batch()
        for launch in launches:
            attempt, spec = launch.attempt, launch.spec
            job = attempt.home, attempt.number
            place = batch.places.get(job)
            if place is None:
                template = Template(spec, *self._payloads.texts_of(spec))
                size_bytes = len(template.environment) + len(template.script) + len(template.stdin)
                if size_bytes > TEMPLATE_BYTES_MAX:
                    self._refuse(attempt, size_bytes)
                    continue
                if batch.orders and batch.size_bytes + size_bytes > LAUNCH_BYTES_MAX:
                    self._send_batch(batch)
                    batch = _Batch()
                place = batch.places[job] = len(batch.templates)
                batch.templates.append(template)
                batch.size_bytes += size_bytes
            is_parallel = launch.ranks > 1 or bool(launch.seats or spec.pipes or spec.bind)
            batch.orders.append(
                StartOrder(
                    attempt,
                    place,
                    launch.gpu_ids,
                    launch.lease_s,
                    launch.leased_steady_s,
                    self._parallel(launch) if is_parallel else None,
                )
            )
        if batch.orders:
            self._send_batch(batch)

    def _parallel(self, launch: LaunchAttempt) -> ParallelSeat:
        """Return what is told of an attempt with several ranks."""
        hosts = (
            SeatHost(seat.machine, self._host_of(seat.machine), seat.ranks) for seat in launch.seats
        )
        return ParallelSeat(launch.ranks, tuple(hosts), launch.port)

    def _send_batch(self, batch: _Batch) -> None:
        self._send(Launch(tuple(batch.templates), tuple(batch.orders)))

    def _refuse(self, attempt: AttemptId, size_bytes: int) -> None:
        """Fail an attempt whose order does not fit into one frame."""
        words = (
            f"its environment, script and standard input have {size_bytes} bytes together, more"
            f" than TEMPLATE_BYTES_MAX = {TEMPLATE_BYTES_MAX}: read the input from a file"
        )
        now_s = time.time()
        self._on_event(
            AttemptExited(
                attempt, EndCause.FAILED, EXIT_NOT_RUN, None, Usage(), now_s, now_s, 0.0, words
            )
        )

    def _send(self, message: ToLauncher) -> None:
        """Send together with all other messages of this round of the event loop.

        So a start and its cancellation that become durable together arrive together, and nothing is
        started.
        """
        if self._stream is None:
            return
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(frame(_encode(message)))

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._stream is not None and unsent:
            self._stream.write(b"".join(unsent))

    def _frames(self, frames: list[bytes]) -> None:
        for payload in frames:
            try:
                message = decoded(_decoder, payload)
            except msgspec.MsgspecError as error:
                if self._stream is not None:
                    self._stream.close(f"not a message of a launcher: {error}")
                return
            self._handle(message)

    def _handle(self, message: FromLauncher) -> None:
        match message:
            case Attached():
                self.welcome, self._other_version = message, None
                self._defective = message.defective
                self._pause_s = RETRY_S
                tasks = _of_tasks(message.alive)
                alive = tuple((task.attempt, task.started_wall_s) for task in tasks)
                known = [each.attempt for each in message.alive]
                known += [end.attempt for end in message.ended]
                steps = tuple(attempt for attempt in known if attempt.step)
                self._on_event(LauncherAttached(alive, steps))
                for each in message.unfit:
                    self._unfit(each)
                self._exits(message.ended)
                self._routes.tell(LauncherReady())
            case Spawned(started):
                for task in _of_tasks(started):
                    self._on_event(AttemptStarted(task.attempt, task.started_wall_s))
            case Frozen(states):
                for state in states:
                    self._on_event(AttemptFrozen(*astuple(state)))
            case Enforced(row):
                self._enforced(row)
            case StreamEnds(attempts):
                self._take_streams(attempts)
            case SeatBarrier():
                self._routes.tell(message)
            case Exited(exits):
                self._exits(exits)
            case HookFailed():
                self._unfit(message)
            case Defective():
                self._defective = message
            case VersionRefused(version):
                self._other_version = version
            case Sampled() | OwnerSeen():
                self._on_event(_event_of(message))

    def _enforced(self, row: Enforcement) -> None:
        """Take in how a limit is enforced now."""
        if self.welcome is not None:
            rows = {each.limit: each for each in self.welcome.enforcement} | {row.limit: row}
            self.welcome = msgspec.structs.replace(self.welcome, enforcement=tuple(rows.values()))

    def _unfit(self, message: HookFailed) -> None:
        """Report that the machine is not fit for tasks, by its own prolog or epilog."""
        if message.hook == PROLOG:
            self._on_event(PrologFailed(message.attempt, message.message))
        else:
            self._routes.tell(EpilogFailed(message.message))

    def _exits(self, exits: tuple[Exit, ...]) -> None:
        for end in exits:
            if end.attempt.attempt == NOTICE_ATTEMPT:
                self._routes.tell(NoticeEnded(end))
                continue
            exited: LauncherEvent = AttemptExited(*msgspec.structs.astuple(end))
            if end.attempt.step:
                exited = StepExited(end.attempt, end.cause, end.exit_code, end.signal, end.message)
            if end.attempt in self._streams:
                self._streams.finish(end.attempt, partial(self._on_event, exited))
            else:
                self._on_event(exited)

    def _take_streams(self, attempts: tuple[tuple[AttemptId, tuple[StreamKind, ...]], ...]) -> None:
        """Take over the ends of streams that came beside the message."""
        if self._stream is None:
            return
        ends = self._stream.descriptors
        for attempt, kinds in attempts:
            own, ends[: len(kinds)] = dict(zip(kinds, ends, strict=False)), []
            self._streams.take(attempt, {str(kind): fd for kind, fd in own.items()})
            if attempt.step:  # of tasks, `Spawned` tells it
                self._on_event(StepStarted(attempt))

    def _closed(self, reason: str) -> None:
        self._stream = None
        self._unsent.clear()
        if self.welcome is not None:
            self.welcome = None
            log.warning("the launcher is gone: %s", reason)
            self._on_event(LauncherLost())
        if not self._is_closing:
            self._loop.call_later(self._pause_s, self.connect)
        elif self._on_over is not None:
            self._on_over()


def _start_of(step: Step) -> StartStep:
    return StartStep(
        step.attempt,
        step.rank,
        step.command,
        step.interaction,
        step.takes_input,
        step.window,
        step.terminal,
    )


def _event_of(message: Sampled | OwnerSeen) -> LauncherEvent:
    """Return what the node hears of a message that has just the same content."""
    if isinstance(message, Sampled):
        return AttemptsSampled(message.samples)
    return OwnerNoticed(message.signs, message.last, message.sensors)


def _standing(order: OrderCycle | WatchOwner) -> SetCycle | SetStandingOrder:
    """Return the message of an order by which a launcher acts on its own."""
    if isinstance(order, WatchOwner):
        return SetStandingOrder(*astuple(order))
    now_s = steady_s()
    length_s = order.quantum_s * order.rows
    since_s = (now_s - order.row_0_steady_s) % length_s if length_s > 0.0 else 0.0
    return SetCycle(order.number, order.quantum_s, order.rows, since_s, now_s, order.turns)


def _of_tasks(alive: tuple[Alive, ...]) -> list[Alive]:
    """Return the attempts of tasks among them, without notices and job steps."""
    return [
        each for each in alive if each.attempt.attempt != NOTICE_ATTEMPT and not each.attempt.step
    ]

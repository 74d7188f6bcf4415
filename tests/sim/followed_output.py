"""What tasks print, on its way from their machines to their homes.

Each machine has the cores that its daemon has: one sends, one fetches. Files outlive daemons; what
a task printed and no daemon took goes with the power of its machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import shake_128
from math import inf
from typing import NamedTuple

from iriai.home.output_copies import CopyKey, OutputCopies
from iriai.machine.core import Machine
from iriai.machine.outbox import Turn
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.job import OUTPUTS
from iriai.node.output_source import OutputSource
from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.scheduling import Begun
from iriai.protocol.messages.streams import AskOutput, Output
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import ProcessModel
from iriai.sim.world.world import World

PRINTED_BYTES = (0, 500, 200_000, 2_500_000)
"""What a task prints in all; the last needs the credit of its home more than once."""
PUMPED_S = 0.5
"""How often a daemon takes what its tasks have printed."""
PERIOD_BYTES = 65_521
"""A prime, so that no two places of a piece are alike."""
WAKES_AT_ONCE_MAX = 100
"""More alarms of a machine in one moment than there is to do."""
READ_BYTES = 512 << 10
"""Of one answer to a client."""


@cache
def _pattern() -> bytes:
    return shake_128(b"printed").digest(PERIOD_BYTES) * (2 + max(PRINTED_BYTES) // PERIOD_BYTES)


def printed(key: CopyKey, begin: int, end: int) -> bytes:
    """Return what a task prints from one place to another."""
    attempt, kind = key
    shift = 10_007 * attempt.number + 1_009 * attempt.index + 101 * attempt.attempt
    shift = (shift + sum(map(ord, attempt.home)) + OUTPUTS.index(kind)) % PERIOD_BYTES
    return _pattern()[begin + shift : end + shift]


class Piece(NamedTuple):
    """The answer to a client that reads."""

    content: bytes
    is_complete: bool
    problem: str


class OutputFiles:
    """The outputs in the files of one machine: as long as they should be, with the right bytes."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._sizes: dict[CopyKey, int] = {}

    def size_bytes(self, attempt: AttemptId, kind: str) -> int:
        """Return how much is stored."""
        return self._sizes.get(CopyKey(attempt, kind), 0)

    def append(self, attempt: AttemptId, kind: str, content: bytes) -> int:
        """Append what came.

        Raises:
            AssertionError: the task printed something else there.
        """
        key = CopyKey(attempt, kind)
        begin = self._sizes.get(key, 0)
        is_right = content == printed(key, begin, begin + len(content))
        assert is_right, f"{self._machine} stores what {attempt} did not print at {begin}"
        self._sizes[key] = begin + len(content)
        return len(content)

    def grow(self, key: CopyKey, size_bytes: int) -> bool:
        """Take what a task has printed so far; return whether it is more than before."""
        if size_bytes <= self._sizes.get(key, 0):
            return False
        self._sizes[key] = size_bytes
        return True

    def read(self, attempt: AttemptId, kind: str, offset: int, bytes_max: int) -> bytes:
        """Return what is stored from `offset` on."""
        key = CopyKey(attempt, kind)
        return printed(key, offset, min(self._sizes.get(key, 0), offset + bytes_max))


class _Streams:
    """Those of one machine."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self.machine = machine
        self.files = OutputFiles(machine.plan.name)
        self.of: Machine | None = None
        """The daemon's core that these belong to."""
        self.begun: list[Begun] = []
        self.ended: dict[AttemptId, None] = {}
        """Attempts whose end the node may not have handled."""
        self.waiting: list[Delivered | LinkUp] = []
        """What arrived while the daemon was stopped."""
        self.planned_s = inf
        self.woken_s = -inf
        self.wakes_at_once = 0
        self.source: OutputSource
        self.copies: OutputCopies

    def begin(self, core: Machine) -> None:
        """Begin with the memory of a new daemon."""
        self.of = core
        self.source = OutputSource(self.files.read, self.files.size_bytes, self._runs)
        self.copies = OutputCopies(self.files, self._is_awaited)
        self.begun.clear()
        self.waiting.clear()

    def _runs(self, attempt: AttemptId) -> bool:
        core = self.machine.core
        return Part.NODE in core.parts and attempt in core.node.calendar

    def _is_awaited(self, attempt: AttemptId) -> bool:
        core = self.machine.core
        return Part.HOME in core.parts and core.home.waits_for(attempt)


class FollowedOutput:
    """The output of all tasks of a world, each of which is followed."""

    def __init__(self, world: World) -> None:
        """The machines of the world are all there."""
        self._world = world
        self._sizes: dict[CopyKey, int] = {}
        self._granted: dict[tuple[str, CopyKey], int] = {}
        """By machine, up to where it may send."""
        self._streams = {name: _Streams(each) for name, each in world.machines.items()}
        for streams in self._streams.values():
            launcher = streams.machine.launcher
            launcher.on_end = self._ends(streams, launcher.on_end)
        self._arrive, world.network.on_arrival = world.network.on_arrival, self._arrives
        world.watchers.append(self._turned)
        world.agenda.after(PUMPED_S, self._pump)

    def files(self, machine: str) -> OutputFiles:
        """Return the files of a machine."""
        return self._streams[machine].files

    # --- for clients -----------------------------------------------------------------------------

    def follow(self, home: str, attempt: AttemptId, machine: str) -> None:
        """Fetch the output of an attempt that is over, as for a client that asks where it is."""
        streams = self._of(home)
        if machine != home:
            self._send(streams, streams.copies.begin(attempt, machine, self._now_s(streams)))

    def read(self, home: str, key: CopyKey, machine: str, offset: int) -> Piece:
        """Answer a client of a daemon that is awake."""
        streams = self._of(home)
        content = streams.files.read(*key, offset, READ_BYTES)
        if machine != home:
            return Piece(content, *streams.copies.state(key, offset + len(content)))
        is_complete = not content and not streams.machine.core.home.waits_for(key.attempt)
        return Piece(content, is_complete, "")

    # --- what tasks print ------------------------------------------------------------------------

    def size_bytes(self, key: CopyKey) -> int:
        """Return how much a task prints if it ends by itself."""
        size_bytes = self._sizes.get(key)
        if size_bytes is None:
            rng = Rng(self._world.seed, f"printed/{key.attempt}/{key.kind}")
            size_bytes = self._sizes[key] = rng.pick(PRINTED_BYTES)
        return size_bytes

    def _by(self, key: CopyKey, process: ProcessModel) -> int:
        """Return how much a process has printed by now."""
        whole_s = process.own_end_s - process.started_s
        ran_s = min(process.end_s, self._world.now_s) - process.started_s
        part = 1.0 if ran_s >= whole_s else max(0.0, ran_s / whole_s)
        return int(self.size_bytes(key) * part)

    def _take(self, streams: _Streams, process: ProcessModel) -> list[CopyKey]:
        """Take what a process has printed; return the outputs that grew."""
        keys = [CopyKey(process.attempt, kind) for kind in OUTPUTS]
        return [key for key in keys if streams.files.grow(key, self._by(key, process))]

    def _pump(self) -> None:
        self._world.agenda.after(PUMPED_S, self._pump)
        for name in self._streams:
            streams = self._awake(name)
            if streams is not None:
                for process in streams.machine.launcher.running.values():
                    for key in self._take(streams, process):
                        self._grown(streams, key)

    def _grown(self, streams: _Streams, key: CopyKey) -> None:
        self._send(streams, streams.source.grown(*key, self._now_s(streams)))

    def _ends(
        self, streams: _Streams, on_end: Callable[[ProcessModel], None]
    ) -> Callable[[ProcessModel], None]:
        def ends(process: ProcessModel) -> None:
            on_end(process)
            if streams.machine.is_up or streams.machine.launcher.is_up:  # else its power is gone
                self._take(streams, process)
            streams.ended[process.attempt] = None

        return ends

    # --- events ----------------------------------------------------------------------------------

    def _arrives(self, machine: SimulatedMachine, event: Delivered | LinkUp | LinkDown) -> None:
        streams = self._streams[machine.plan.name]
        if not isinstance(event, Delivered):
            self._arrive(machine, event)
        elif event.part is not Part.STREAMS:
            self._arrive(machine, event)
            if isinstance(event.message, Begun):
                streams.begun.append(event.message)
            return
        else:
            is_taken = machine.core.takes(event.sender, event.part, event.message)
            assert is_taken, f"{machine.plan.name} refuses {event}"
        if not isinstance(event, LinkDown):
            streams.waiting.append(event)
            self._handle(streams)

    def _handle(self, streams: _Streams) -> None:
        """Handle what has arrived, unless the daemon is stopped."""
        if self._awake(streams.machine.plan.name) is None:
            return
        waiting, streams.waiting = streams.waiting, []
        now_s = self._now_s(streams)
        for event in waiting:
            if isinstance(event, LinkUp):
                self._send(streams, streams.copies.linked(event.machine, now_s))
            elif isinstance(event.message, AskOutput):
                ask = event.message
                granted = streams.machine.plan.name, CopyKey(ask.attempt, ask.kind)
                end = ask.offset + ask.credit_bytes
                self._granted[granted] = max(end, self._granted.get(granted, 0))
                self._send(streams, streams.source.ask(ask, now_s))
            else:
                assert isinstance(event.message, Output)
                self._send(streams, streams.copies.receive(event.sender, event.message, now_s))

    def _turned(self, machine: SimulatedMachine, _turn: Turn, _now: Instant) -> None:
        """Follow what began elsewhere, and send the rest of what ended here."""
        streams = self._awake(machine.plan.name)
        if streams is None:
            return
        self._handle(streams)
        core, now_s = machine.core, self._now_s(streams)
        begun, streams.begun = streams.begun, []
        for each in begun:
            if each.machine != machine.plan.name and core.home.waits_for(
                each.attempt, each.machine
            ):
                self._send(streams, streams.copies.begin(each.attempt, each.machine, now_s))
        for attempt in [each for each in streams.ended if each not in core.node.calendar]:
            del streams.ended[attempt]
            self._send(streams, streams.source.ended(attempt, now_s))

    def _awake(self, name: str) -> _Streams | None:
        """Return the streams of a machine; None: its daemon does not run now."""
        machine = self._streams[name].machine
        return self._of(name) if machine.is_up and not machine.is_stopped else None

    def _of(self, name: str) -> _Streams:
        streams = self._streams[name]
        machine = streams.machine
        if streams.of is not machine.core:
            streams.begin(machine.core)
        return streams

    def _send(self, streams: _Streams, sends: list[Send]) -> None:
        name = streams.machine.plan.name
        for send in sends:
            if isinstance(send.message, Output):
                output = send.message
                granted = self._granted[name, CopyKey(output.attempt, output.kind)]
                end = output.offset + len(output.content)
                assert end <= granted, f"{name} sends {end} bytes of {output.attempt}, of {granted}"
            self._world.network.send(streams.machine, send)
        due = (streams.source.next_s(), streams.copies.next_s())
        for due_s in due:
            if due_s is not None:
                self._plan(streams, streams.machine.clock.world_s(due_s))

    def _plan(self, streams: _Streams, at_s: float) -> None:
        if at_s < streams.planned_s:
            streams.planned_s = at_s
            self._world.agenda.at(at_s, lambda: self._wake(streams))

    def _wake(self, streams: _Streams) -> None:
        if self._world.now_s < streams.planned_s:
            return  # it was planned for earlier meanwhile, and again
        streams.planned_s = inf
        name, now_s = streams.machine.plan.name, self._world.now_s
        streams.wakes_at_once = streams.wakes_at_once + 1 if streams.woken_s == now_s else 0
        streams.woken_s = now_s
        assert streams.wakes_at_once < WAKES_AT_ONCE_MAX, f"no time passes for output on {name}"
        if self._awake(streams.machine.plan.name) is not None:
            self._handle(streams)
            now_s = self._now_s(streams)
            self._send(streams, streams.source.wake(now_s) + streams.copies.wake(now_s))
        elif streams.machine.is_up:
            self._plan(streams, self._world.now_s + PUMPED_S)

    def _now_s(self, streams: _Streams) -> float:
        return streams.machine.clock.steady_s(self._world.now_s)

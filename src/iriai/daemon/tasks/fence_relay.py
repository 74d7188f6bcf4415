"""Brings barriers of ranks from the launchers of their machines to their home, and back."""

from __future__ import annotations

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import LauncherOrder, Outgoing, StreamMessage
from iriai.home.fences import Fences
from iriai.launcher.contract.messages import EndBarrier, SeatBarrier
from iriai.model.ids import AttemptId
from iriai.protocol.messages.effects import LinkUp, Part, Send
from iriai.protocol.messages.fences import Fence, Fenced
from iriai.protocol.messages.scheduling import Message

SEATS_MAX = 4096
"""Seats here whose barriers are kept; of more the oldest is forgotten."""
KEPT = 2
"""Barriers of a seat that its home is told again; see `iriai.home.fences`."""


class FenceRelay:
    """The barriers of the seats that run here, and those of the attempts of this home."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._name = engine.machine.name
        self._fences = Fences(self._seats_of)
        self._told: dict[AttemptId, list[Fence]] = {}
        """The last barriers of each seat here."""
        engine.routes.take(SeatBarrier, self._reached)
        engine.routes.take(StreamMessage, self._receive)
        engine.routes.take(LinkUp, self._linked)

    def _reached(self, barrier: SeatBarrier) -> None:
        """Tell the home of a seat, perhaps again, that its ranks have come to a barrier."""
        fence = Fence(barrier.attempt, barrier.number, barrier.put)
        others = (each for each in self._told.pop(fence.attempt, ()) if each != fence)
        kept = sorted((*others, fence), key=lambda each: each.number)
        self._told[fence.attempt] = kept[-KEPT:]
        if len(self._told) > SEATS_MAX:
            del self._told[next(iter(self._told))]
        self._tell(fence.attempt.home, fence)

    def _linked(self, event: LinkUp) -> None:
        """Tell a home again what it may not have received, or has forgotten."""
        for attempt, fences in self._told.items():
            if attempt.home == event.machine:
                for fence in fences:
                    self._tell(event.machine, fence)

    def _receive(self, received: StreamMessage) -> None:
        match received.message:
            case Fence():
                for machine, fenced in self._fences.take(received.sender, received.message):
                    self._tell(machine, fenced)
            case Fenced(attempt, number, put):
                self._engine.routes.tell(LauncherOrder(EndBarrier(attempt, number, put)))

    def _tell(self, machine: str, message: Message) -> None:
        if machine == self._name:
            self._receive(StreamMessage(machine, message))
        else:
            self._engine.routes.tell(Outgoing([Send(machine, Part.STREAMS, message)]))

    def _seats_of(self, attempt: AttemptId) -> tuple[tuple[int, str], ...]:
        machine = self._engine.machine
        if Part.HOME not in machine.parts or not machine.home.waits_for(attempt):
            return ()
        return machine.home.jobs[attempt.number].tasks[attempt.index].seats()

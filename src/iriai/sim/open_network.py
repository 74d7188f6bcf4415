"""A network between any machines, without links: for worlds with too many machines for these.

Each message arrives after a delay of its own, in order between two machines, or never. There is no
word of who can be reached; what machines say to each other shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from iriai.protocol.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.sim.agenda import Agenda
from iriai.sim.machine_model import SimulatedMachine
from iriai.sim.network import OF_BROKERS, Network, NetworkPlan

FRAME_BYTES = 24
"""Of each message beside its body: length, envelope, names of part and kind."""


@dataclass(frozen=True, slots=True)
class Delays:
    """One way, lognormal."""

    median_s: float = 0.010
    sigma: float = 0.5
    """Of the logarithm: the middle half is between 0.7 and 1.4 times the median."""
    longest_s: float = 0.050


class OpenNetwork(Network):
    """See the module."""

    def __init__(
        self,
        delays: Delays,
        loss: float,
        agenda: Agenda,
        seed: int,
        arrive: Callable[[SimulatedMachine, Delivered | LinkUp | LinkDown], None],
        machines: dict[str, SimulatedMachine],
    ) -> None:
        """`loss` is the part of all messages to and from brokers that never arrives."""
        super().__init__(NetworkPlan(loss=loss), agenda, seed, arrive)
        self._delays = delays
        self._machines = machines
        self._loss = loss
        self._encode = msgspec.msgpack.Encoder().encode
        self._free_s: dict[tuple[str, str], float] = {}
        self.bytes_of: dict[str, int] = {}
        """Sent and received by each machine, since it was cleared."""
        self.counts: dict[str, int] = {}
        """Messages of each kind."""

    def join(self, first: SimulatedMachine, second: SimulatedMachine) -> None:
        """Everybody can speak to everybody."""

    def send(self, sender: SimulatedMachine, send: Send) -> None:
        """A part has something to say to another machine."""
        name, to, message = sender.plan.name, send.machine, send.message
        size = len(self._encode(message)) + FRAME_BYTES
        self.bytes_of[name] = self.bytes_of.get(name, 0) + size
        kind = type(message).__name__
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self._loss:
            of_broker = send.part in (Part.BROKER, Part.SUCCESSION)
            of_broker = of_broker or isinstance(message, OF_BROKERS)
            if of_broker and self._mishaps.chance(self._loss):
                return
        self.bytes_of[to] = self.bytes_of.get(to, 0) + size
        delays = self._delays
        delay_s = min(delays.longest_s, self._latency.lognormal(delays.median_s, delays.sigma))
        arrival_s = max(self._agenda.now_s + delay_s, self._free_s.get((name, to), 0.0))
        self._free_s[name, to] = arrival_s
        delivered = Delivered(name, send.part, message)
        self._agenda.at(arrival_s, partial(self._arrives, to, delivered))

    def _arrives(self, to: str, delivered: Delivered) -> None:
        receiver = self._machines.get(to)
        if receiver is not None and receiver.is_up:
            self.on_arrival(receiver, delivered)

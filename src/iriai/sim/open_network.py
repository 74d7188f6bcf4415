"""A network between any machines, without links: for worlds with too many machines for these.

What a machine says to another in one moment arrives together, after a delay of its own and in
order, or never. There is no
word of who can be reached; what machines say to each other shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

import msgspec

from iriai.protocol.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.sim.agenda import Agenda
from iriai.sim.machine_model import SimulatedMachine
from iriai.sim.network import OF_BROKERS, Network, NetworkPlan

MESSAGE_BYTES = 24
"""Of each message beside its body: envelope, names of part and kind."""
RECORD_BYTES = 26
"""Of what one machine says to another in one moment: the frame's length, and the record of TLS."""


@dataclass(frozen=True, slots=True)
class Delays:
    """One way, lognormal."""

    median_s: float = 0.010
    sigma: float = 0.5
    """Of the logarithm: the middle half is between 0.7 and 1.4 times the median."""
    longest_s: float = 0.050


class OpenNetwork(Network):
    """See the module."""

    has_links = False

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
        self._free_s: dict[str, tuple[float, float]] = {}
        """By sender and receiver, when something was last said, and when that arrives."""
        self.bytes_of: dict[str, int] = {}
        """Sent and received by each machine, since it was cleared."""
        self.counts: dict[str, int] = {}
        """Messages of each kind."""

    def send(self, sender: SimulatedMachine, send: Send) -> None:
        """A part has something to say to another machine."""
        name, to, message = sender.plan.name, send.machine, send.message
        now_s = self._agenda.now_s
        way = f"{name}>{to}"
        said_s, arrival_s = self._free_s.get(way, (-inf, 0.0))
        size = len(self._encode(message)) + MESSAGE_BYTES
        size += RECORD_BYTES if said_s < now_s else 0
        self.bytes_of[name] = self.bytes_of.get(name, 0) + size
        kind = type(message).__name__
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if said_s < now_s:
            delays = self._delays
            delay_s = min(delays.longest_s, self._latency.lognormal(delays.median_s, delays.sigma))
            arrival_s = max(now_s + delay_s, arrival_s)
            self._free_s[way] = (now_s, arrival_s)
        if self._loss:
            of_broker = send.part in (Part.BROKER, Part.SUCCESSION)
            of_broker = of_broker or isinstance(message, OF_BROKERS)
            if of_broker and self._mishaps.chance(self._loss):
                return
        self.bytes_of[to] = self.bytes_of.get(to, 0) + size
        delivered = Delivered(name, send.part, message)
        self._agenda.at(arrival_s, partial(self._arrives, to, delivered))

    def _arrives(self, to: str, delivered: Delivered) -> None:
        receiver = self._machines.get(to)
        if receiver is not None and receiver.is_up:
            self.on_arrival(receiver, delivered)

"""A simulated network without links, for worlds with very many machines.

What a machine says to another in one moment arrives together, after a delay of its own and in
order, or never. There is no word of who can be reached; what machines say to each other shows it.
Bytes are those of frames, of TLS's records, and of what links take by themselves: handshakes of new
ones, pings of quiet ones. TCP and IP are not in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

import msgspec

from iriai.protocol.membership.cluster_core import OF_PEERS
from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.sim.world.event_queue import EventQueue
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.network import OF_BROKERS, Network, NetworkPlan
from iriai.wire.links import IDLE_S, QUIET_S

MESSAGE_BYTES = 24
"""Of each message beside its body: envelope, names of part and kind."""
RECORD_BYTES = 26
"""Of what one machine says to another in one moment: the frame's length, and the record of TLS."""
LINK_BYTES = 4_200
"""Of a new link, both ways: 3.8 kB of TLS with two certificates, and what both say first."""
PING_BYTES = 83
"""Of a ping and its answer."""


@dataclass(frozen=True, slots=True)
class Delays:
    """The lognormal delays of messages, one way."""

    median_s: float = 0.010
    sigma: float = 0.5
    """Of the logarithm: the middle half is between 0.7 and 1.4 times the median."""
    longest_s: float = 0.050


class OpenNetwork(Network):
    """A network without links."""

    has_links = False

    def __init__(
        self,
        delays: Delays,
        loss: float,
        agenda: EventQueue,
        seed: int,
        arrive: Callable[[SimulatedMachine, Delivered | LinkUp | LinkDown], None],
        machines: dict[str, SimulatedMachine],
    ) -> None:
        """`loss` is the part of all messages to and from brokers, and of gossip, that is lost."""
        super().__init__(NetworkPlan(loss=loss), agenda, seed, arrive)
        self._delays = delays
        self._machines = machines
        self._loss = loss
        self._encode = msgspec.msgpack.Encoder().encode
        self._free_s: dict[str, tuple[float, float]] = {}
        """By sender and receiver, when something was last said, and when that arrives."""
        self._used_s: dict[str, float] = {}
        """By the two machines of a link, when something was said on it last."""
        self.bytes_of: dict[str, int] = {}
        """Sent and received by each machine but for gossip, since it was cleared."""
        self.gossip_bytes_of: dict[str, int] = {}
        """The same of memberships and directories."""
        self.counts: dict[str, int] = {}
        """Messages of each kind."""

    def send(self, sender: SimulatedMachine, send: Send) -> None:
        """Send a message of a part to another machine, and count its bytes."""
        name, to, message = sender.plan.name, send.machine, send.message
        now_s = self._agenda.now_s
        way = f"{name}>{to}"
        said_s, arrival_s = self._free_s.get(way, (-inf, 0.0))
        size = len(self._encode(message)) + MESSAGE_BYTES
        if said_s < now_s:
            size += RECORD_BYTES
        is_gossip = send.part in OF_PEERS
        bytes_of = self.gossip_bytes_of if is_gossip else self.bytes_of
        link_bytes = self._link_bytes(name, to, now_s)
        bytes_of[name] = bytes_of.get(name, 0) + size + link_bytes
        kind = type(message).__name__
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if said_s < now_s:
            delays = self._delays
            delay_s = min(delays.longest_s, self._latency.lognormal(delays.median_s, delays.sigma))
            arrival_s = max(now_s + delay_s, arrival_s)
            self._free_s[way] = (now_s, arrival_s)
        if link_bytes:
            bytes_of[to] = bytes_of.get(to, 0) + link_bytes
        if self._loss:
            may_be_lost = is_gossip or send.part in (Part.BROKER, Part.SUCCESSION)
            may_be_lost = may_be_lost or isinstance(message, OF_BROKERS)
            if may_be_lost and self._mishaps.chance(self._loss):
                return
        bytes_of[to] = bytes_of.get(to, 0) + size
        delivered = Delivered(name, send.part, message)
        self._agenda.at(arrival_s, partial(self._arrives, to, delivered))

    def _link_bytes(self, name: str, to: str, now_s: float) -> int:
        """Return the bytes of handshakes and pings since the last message on a link."""
        pair = f"{name} {to}" if name < to else f"{to} {name}"
        quiet_s = now_s - self._used_s.get(pair, -inf)
        self._used_s[pair] = now_s
        if quiet_s < QUIET_S:
            return 0
        pings = int(min(quiet_s, IDLE_S) / QUIET_S)
        return pings * PING_BYTES + (LINK_BYTES if quiet_s > IDLE_S else 0)

    def _arrives(self, to: str, delivered: Delivered) -> None:
        receiver = self._machines.get(to)
        if receiver is not None and receiver.is_up:
            self.on_arrival(receiver, delivered)

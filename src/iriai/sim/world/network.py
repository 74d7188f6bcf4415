"""The simulated network: links as ordered streams that break, and a mode that reorders them.

A link is a stream each way: what arrives does so in order, once, until it breaks; what is under way
then is lost, and each end hears of it when it does. It is opened again by an end that can reach the
other. With `loss`, `repeat` or `late` single messages go astray as well, which no stream does: what
cores say of any message must hold all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.scheduling import Match, Promise, Quiet
from iriai.sim.world.event_queue import EventQueue
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.rng import Rng
from iriai.wire.parts import pack, unpack

OF_BROKERS = (Match, Promise, Quiet)
"""Messages of brokers; those to brokers are known by the part."""


RETRY_S = 1.0
"""Time between two attempts to open a link."""


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The description of a network; all zero: messages arrive at once."""

    latency_s: float = 0.0
    jitter_s: float = 0.0
    """Added to the latency, at most."""
    notice_s: float = 0.0
    """The most seconds until an end notices that a link is broken."""
    loss: float = 0.0
    """The part of messages to and from brokers that is lost."""
    repeat: float = 0.0
    """The part of all messages that arrives twice, the second time later."""
    late: float = 0.0
    """The part of all messages that others overtake."""
    late_s: float = 5.0
    """How late they are, at most."""


class _Link:
    """The link between two machines."""

    def __init__(self, ends: tuple[SimulatedMachine, SimulatedMachine]) -> None:
        self.ends = ends
        self.epoch = 0
        """Raised when it opens or breaks: messages of an earlier epoch are lost."""
        self.is_open = False
        self.is_cut = False
        """True during a partition."""
        self.is_tried = False
        """True if another attempt to open it is planned."""
        self.believes: dict[str, bool] = {end.plan.name: False for end in ends}
        """By machine, whether it sees the link as open."""
        self.free_s: dict[str, float] = {}
        """When the last message under way arrives, by receiver."""
        first, second = ends
        self.other = {first.plan.name: second, second.plan.name: first}
        """The machine at the far end, by the name of the near one."""


class Network:
    """All links of a world."""

    has_links = True
    """True if machines need a link to send messages."""

    def __init__(
        self,
        plan: NetworkPlan,
        agenda: EventQueue,
        seed: int,
        arrive: Callable[[SimulatedMachine, Delivered | LinkUp | LinkDown], None],
    ) -> None:
        self.plan = plan
        self.through_wire = False
        """True if each message becomes bytes on its way."""
        self.sent = 0
        self._agenda = agenda
        self.on_arrival = arrive
        """Called with each event that reaches a machine."""
        self._latency = Rng(seed, "latency")
        self._mishaps = Rng(seed, "mishaps")
        self._notice = Rng(seed, "notice")
        self._links: dict[tuple[str, str], _Link] = {}

    @property
    def round_trip_s(self) -> float:
        """Return how long a question and its answer take, at most."""
        return 2 * (self.plan.latency_s + self.plan.jitter_s)

    def is_linked(self, first: str, second: str) -> bool:
        """Return whether two machines have an open link."""
        link = self._links.get(_pair(first, second))
        return not self.has_links or (link is not None and link.is_open)

    # --- links -----------------------------------------------------------------------------------

    def join(self, first: SimulatedMachine, second: SimulatedMachine) -> None:
        """Let two machines open a link whenever they can.

        Of a cluster other members relay between two that cannot be reached from outside.

        Raises:
            ValueError: neither can be reached from outside, and they are of no cluster.
        """
        are_alone = not (first.plan.cluster and second.plan.cluster)
        if are_alone and first.plan.outward_only and second.plan.outward_only:
            names = f"{first.plan.name} and {second.plan.name}"
            raise ValueError(f"{names} can only connect outwards; one must be reachable")
        pair = _pair(first.plan.name, second.plan.name)
        link = self._links[pair] = _Link((first, second))
        self._open(link)

    def cut(self, first: str, second: str) -> None:
        """Part two machines until `heal`."""
        link = self._links.get(_pair(first, second))
        if link is not None:
            link.is_cut = True
            self._break(link)

    def heal(self, first: str, second: str) -> None:
        """End the partition of two machines."""
        link = self._links.get(_pair(first, second))
        if link is not None and link.is_cut:
            link.is_cut = False
            self._open(link)

    def leave(self, name: str) -> None:
        """Remove the links of a machine that left for ever."""
        for pair in [pair for pair in self._links if name in pair]:
            self._links.pop(pair).is_cut = True

    def heal_all(self) -> None:
        """End all partitions and losses of messages, and open every link anew."""
        self.plan = replace(self.plan, loss=0.0, repeat=0.0, late=0.0)
        for link in self._links.values():
            link.is_cut = False
            self._break(link)
            self._open(link)

    def break_link(self, first: str, second: str) -> None:
        """Break a link, which opens again soon."""
        link = self._links.get(_pair(first, second))
        if link is not None:
            self._break(link)
            self._open(link)

    def break_all_of(self, name: str) -> None:
        """Break all links of a machine."""
        for pair, link in self._links.items():
            if name in pair:
                self._break(link)
                self._open(link)

    @property
    def is_whole(self) -> bool:
        """True if every link is open at both ends."""
        return all(link.is_open and all(link.believes.values()) for link in self._links.values())

    def _break(self, link: _Link) -> None:
        if link.is_open:
            link.is_open = False
            link.epoch += 1
            link.free_s.clear()
        for end in link.ends:
            name = end.plan.name
            if not end.is_up:  # whoever comes up knows of no link
                link.believes[name] = False
            elif link.believes[name]:
                delay_s = self.plan.notice_s * self._notice.random()
                self._agenda.after(delay_s, partial(self._notices, link, end))

    def _notices(self, link: _Link, end: SimulatedMachine) -> None:
        name = end.plan.name
        if link.is_open or not link.believes[name]:
            return
        link.believes[name] = False
        if end.is_up:
            self.on_arrival(end, LinkDown(link.other[name].plan.name))

    def _open(self, link: _Link) -> None:
        """Open a link, or try again later."""
        if link.is_open or link.is_cut or link.is_tried:
            return
        ready = all(end.is_up and not end.is_stopped for end in link.ends)
        if not ready or any(link.believes.values()):
            link.is_tried = True
            self._agenda.after(RETRY_S, partial(self._try_again, link))
            return
        link.is_open = True
        link.epoch += 1
        asker, asked = link.ends
        if asked.plan.outward_only:
            asker, asked = asked, asker
        there_s = self._agenda.now_s + self._delay_s()
        for end, at_s in ((asked, there_s), (asker, there_s + self._delay_s())):
            link.free_s[end.plan.name] = at_s
            self._agenda.at(at_s, partial(self._is_up, link, end, link.epoch))

    def _try_again(self, link: _Link) -> None:
        link.is_tried = False
        self._open(link)

    def _is_up(self, link: _Link, end: SimulatedMachine, epoch: int) -> None:
        if link.epoch == epoch and end.is_up:
            link.believes[end.plan.name] = True
            self.on_arrival(end, LinkUp(link.other[end.plan.name].plan.name))

    # --- messages --------------------------------------------------------------------------------

    def send(self, sender: SimulatedMachine, send: Send) -> None:
        """Send a message of a part to another machine; without a link it is lost."""
        name = sender.plan.name
        machine = send.machine
        link = self._links.get((name, machine) if name < machine else (machine, name))
        if link is None or not link.is_open or not link.believes[name]:
            return
        self.sent += 1
        message = send.message
        if self.through_wire:
            message = unpack(pack(send.part, message))
        delivered = Delivered(name, send.part, message)
        plan = self.plan
        arrival_s = self._agenda.now_s + self._delay_s()
        if plan.loss or plan.repeat or plan.late:
            of_broker = send.part is Part.BROKER or isinstance(message, OF_BROKERS)
            if of_broker and self._mishaps.chance(plan.loss):
                return
            if self._mishaps.chance(plan.repeat):
                again_s = arrival_s + plan.late_s * self._mishaps.random()
                self._deliver(link, delivered, again_s)
            if self._mishaps.chance(plan.late):
                arrival_s += plan.late_s * self._mishaps.random()
                self._deliver(link, delivered, arrival_s)
                return
        free_s = link.free_s.get(send.machine, 0.0)
        if arrival_s < free_s:
            arrival_s = free_s
        link.free_s[send.machine] = arrival_s
        self._deliver(link, delivered, arrival_s)

    def _deliver(self, link: _Link, delivered: Delivered, arrival_s: float) -> None:
        epoch, receiver = link.epoch, link.other[delivered.sender]

        def arrive() -> None:
            if link.epoch == epoch and receiver.is_up:
                self.on_arrival(receiver, delivered)

        self._agenda.at(arrival_s, arrive)

    def _delay_s(self) -> float:
        plan = self.plan
        if not plan.jitter_s:
            return plan.latency_s
        return plan.latency_s + plan.jitter_s * self._latency.random()


def _pair(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first < second else (second, first)

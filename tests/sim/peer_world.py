"""Worlds of peers over a network of their own: memberships, directories and questions.

Each message goes its own way, after a lognormal delay, unless it is lost; a machine that can only
connect outwards is reached through others (twice the way), or not at all without relays. What
machines are told is kept, for tests to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from iriai.cluster.broker_questions import (
    BrokerQuestions,
    BrokerReplied,
    answer_of,
    question_in,
)
from iriai.config.sections import GossipSection
from iriai.model.records import LedgerRow
from iriai.protocol.membership.membership import MembershipSettings
from iriai.protocol.messages.effects import (
    Delivered,
    DocumentReceived,
    Effect,
    Inquired,
    MembersChanged,
    Part,
    PeerNoticed,
    Send,
)
from iriai.protocol.messages.entries import Entry
from iriai.protocol.messages.members import Member, MemberState
from iriai.sim.world.clock import Clock
from iriai.sim.world.event_queue import EventQueue
from iriai.sim.world.keyed_signatures import KeyedVerifier
from iriai.sim.world.peer_machines import PeerMachine, PeerMachines
from iriai.sim.world.rng import Rng
from iriai.wire.inquiries import AskMatchFor
from iriai.wire.machines import MatchTable
from iriai.wire.parts import pack, unpack

SIGMA = 0.6
"""Of the logarithm of delays: the slowest of twenty takes 2.7 times the median."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The description of a network."""

    delay_s: float = 0.01
    """The median, one way."""
    delay_max_s: float = 0.05
    loss: float = 0.0
    """The part of all messages that does not arrive."""
    has_relays: bool = True
    """True if outward-only machines are reached by others than those they connect to."""
    through_wire: bool = False
    """True if messages are turned into bytes and back."""


@dataclass
class WatchedPeer(PeerMachine):
    """A machine of a `PeerWorld`, with all that it was told."""

    is_asleep: bool = False
    inbox: list[Delivered] = field(default_factory=list)
    """Messages that arrived while it was suspended."""
    changes: list[Member] = field(default_factory=list)
    """Changes that its membership reported, in order."""
    notices: list[PeerNoticed] = field(default_factory=list)
    documents: list[Entry] = field(default_factory=list)
    """Documents of operators that reached it, in order."""
    broker_at: str = ""
    """The machine whose broker it follows; empty: itself."""
    inquiries: BrokerQuestions = field(default_factory=BrokerQuestions)
    questions: dict[int, str] = field(default_factory=dict)
    """Its questions, by number."""
    answers: dict[int, str | None] = field(default_factory=dict)
    """The answers to its questions, by number; None without one."""

    @property
    def cannot_be_reached(self) -> bool:
        """Whether it can only connect outwards."""
        return self.peers.publisher.member.is_outward_only

    def takes_for(self, other: str) -> MemberState | None:
        """Return the state of another member as this machine sees it; None if unknown."""
        member = self.peers.members.get(other)
        return member.state if member else None


class PeerWorld(PeerMachines):
    """Memberships and directories of many machines. Times are seconds of the world, from 0."""

    machine_type = WatchedPeer

    def __init__(
        self,
        seed: int = 1,
        ways: Ways | None = None,
        *,
        membership: MembershipSettings | None = None,
        directory: GossipSection | None = None,
        needs_certificates: bool = False,
    ) -> None:
        super().__init__(seed, EventQueue(), self._carry_over)
        self.ways = ways or Ways()
        self.on_send: Callable[[WatchedPeer, Send], None] | None = None
        """Called with what is sent, whether it arrives or not."""
        self.membership = membership
        self.directory = directory
        self._needs_certificates = needs_certificates
        self._delays = Rng(seed, "delays")
        self._losses = Rng(seed, "losses")
        self._sides: dict[str, int] = {}
        """The side of a partition of each machine; 0 by default."""
        self._answering = ("", "")
        """The receiver and the sender of the message that is being handled."""

    def verifier(self) -> KeyedVerifier:
        return KeyedVerifier(self.seed, self._needs_certificates)

    # --- machines --------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        seeds: Sequence[str] = (),
        *,
        clock: Clock | None = None,
        is_outward_only: bool = False,
        cluster: str = "lab",
        instance: str = "",
        incarnation: int | None = None,
        cluster_name: str = "",
        parts: tuple[str, ...] = ("node", "home", "broker"),
        counters: Callable[[], tuple[LedgerRow, ...]] = tuple,
    ) -> WatchedPeer:
        """Add a machine, or restart one without its state. `counters` are those of its node."""
        life = self.lives + 1
        member = Member(
            name=name,
            incarnation=0,
            state=MemberState.ALIVE,
            cluster=cluster,
            addresses=() if is_outward_only else (f"{name}:7333",),
            is_outward_only=is_outward_only,
            instance=instance or f"{name}-{life}",
            cluster_name=cluster_name,
            parts=parts,
        )
        return self.start(
            member,
            clock or Clock(),
            incarnation=life if incarnation is None else incarnation,
            came_up_s=self.now_s,
            seeds=seeds,
            counters=counters,
        )

    def leave(self, name: str) -> None:
        """Let a machine announce that it leaves; it stops after three seconds."""
        machine = self.machines[name]
        self.perform(machine, machine.member.leave(machine.clock.at(self.now_s)))
        self.agenda.after(3.0, partial(setattr, machine, "is_up", False))

    def sleep(self, name: str, for_s: float) -> None:
        """Suspend a machine for a while; its clock goes on."""
        machine = self.machines[name]
        machine.is_asleep = True
        self.agenda.after(for_s, partial(self._wake_up, machine))

    def ask(self, name: str, other: str, requirements: str) -> int:
        """Ask another machine what matches `requirements`, which it echoes; return the number."""
        machine, question = self.machines[name], AskMatchFor(requirements, "lab", "ann")
        now = machine.clock.at(self.now_s)
        number, effects = machine.inquiries.ask(other, question, MatchTable, now)
        machine.questions[number] = requirements
        self.perform(machine, effects)
        return number

    def part(self, sides: dict[str, int]) -> None:
        """Part machines by side; those not named are on side 0."""
        self._sides = sides

    def heal(self) -> None:
        """End the partition."""
        self._sides = {}

    def run_until(self, until_s: float) -> None:
        """Run all events up to a time."""
        self.agenda.run_until(until_s)

    def run_until_true(self, condition: Callable[[], bool], until_s: float) -> float | None:
        """Run until `condition` holds, checked each 0.1 s; return the time, or None."""
        while not condition():
            if self.now_s >= until_s:
                return None
            self.run_until(self.now_s + 0.1)
        return self.now_s

    def up(self) -> list[WatchedPeer]:
        """Return the machines that are up."""
        return [machine for machine in self.machines.values() if machine.is_up]

    def perform_one(self, machine: WatchedPeer, effect: Effect | BrokerReplied) -> None:
        if isinstance(effect, MembersChanged):
            machine.changes += effect.members
        elif isinstance(effect, PeerNoticed):
            machine.notices.append(effect)
        elif isinstance(effect, Inquired):
            self.perform(machine, machine.inquiries.answer(effect, self._echo(machine, effect)))
        elif isinstance(effect, BrokerReplied):
            assert effect.number not in machine.answers, "a question ended twice"
            table = effect.reply.answer
            machine.answers[effect.number] = None if table is None else table.requirements
        elif isinstance(effect, DocumentReceived):
            machine.documents.append(effect.document)
        super().perform_one(machine, effect)

    def _echo(self, machine: WatchedPeer, inquired: Inquired):
        broker_at = machine.broker_at or machine.name
        answerers = {AskMatchFor: lambda asked, _: MatchTable(asked.requirements, (), ())}
        now = machine.clock.at(self.now_s)
        is_broker = broker_at == machine.name
        question = question_in(inquired, machine.name, broker_at, is_broker=is_broker)
        return answer_of(question, answerers, machine.name, now)

    # --- messages --------------------------------------------------------------------------------

    def _carry_over(self, machine: WatchedPeer, send: Send) -> None:
        to, message = self.machines.get(send.machine), send.message
        if self.on_send is not None:
            self.on_send(machine, send)
        if self.ways.through_wire:
            message = unpack(pack(send.part, message))
        if to is None or self._losses.chance(self.ways.loss):
            return
        legs = 1
        if to.cannot_be_reached and self._answering != (machine.name, to.name):
            if not self.ways.has_relays:  # and it answers nothing over the connection of `to`
                return
            legs = 2
        delay_s = sum(self._delay_s() for _ in range(legs))
        event = Delivered(machine.name, send.part, message)
        self.agenda.after(delay_s, partial(self.arrive, to, event))

    def _delay_s(self) -> float:
        return min(self._delays.lognormal(self.ways.delay_s, SIGMA), self.ways.delay_max_s)

    def arrive(self, machine: WatchedPeer, event: Delivered) -> None:
        """Deliver a message to a machine, unless it is down or on another side."""
        if self._sides.get(machine.name, 0) != self._sides.get(event.sender, 0):
            return
        if machine.is_up and machine.is_asleep:
            machine.inbox.append(event)
            return
        self._answering = (machine.name, event.sender)
        super().arrive(machine, event)
        self._answering = ("", "")

    def wake(self, machine: WatchedPeer, part: Part, at_s: float) -> None:
        if not machine.is_asleep:
            super().wake(machine, part, at_s)

    def _wake_up(self, machine: WatchedPeer) -> None:
        machine.is_asleep = False
        late, machine.inbox = machine.inbox, []
        for event in late:
            self.handle(machine, event)
        for part, at_s in list(machine.alarms.items()):
            if at_s <= self.now_s:
                self.wake(machine, part, at_s)

    def handle(self, machine: WatchedPeer, event) -> None:
        if event.part is Part.INQUIRY:
            now = machine.clock.at(self.now_s)
            self.perform(machine, machine.inquiries.handle(event, now))
        else:
            super().handle(machine, event)

"""Memberships and directories of many machines in virtual time, without other parts.

Input: machines, what the network does, what happens to them. Output: what each of them knows. Each
message goes its own way, after a lognormal delay, unless it is lost; a machine that can only
connect outwards is reached through others (twice the way), or not at all without relays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from iriai.cluster.broker_questions import Answerer, BrokerQuestions, BrokerReplied, answer_of
from iriai.cluster.member import ClusterMember, ForParts
from iriai.config.sections import GossipSection
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay
from iriai.protocol.membership.cluster_core import ClusterCore
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
    Wake,
    WakeAt,
)
from iriai.protocol.messages.entries import Entry
from iriai.protocol.messages.members import Member, MemberState
from iriai.sim.world.clock import Clock
from iriai.sim.world.event_queue import EventQueue
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier
from iriai.sim.world.rng import Rng, generator
from iriai.wire.inquiries import AskMatchFor, Told
from iriai.wire.machines import MatchTable
from iriai.wire.parts import pack, unpack

DECAY = Decay(604_800.0)
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
class PeerMachine:
    """A machine of a `PeerWorld`."""

    name: str
    member: ClusterMember
    clock: Clock
    cannot_be_reached: bool
    is_up: bool = True
    is_asleep: bool = False
    alarms: dict[Part, float] = field(default_factory=dict)
    """By part, the moment of the world at which it wakes."""
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
    def peers(self) -> ClusterCore:
        """Its membership and directory."""
        return self.member.peers

    def takes_for(self, other: str) -> MemberState | None:
        """Return the state of another member as this machine sees it; None if unknown."""
        member = self.peers.members.get(other)
        return member.state if member else None


class PeerWorld:
    """Memberships and directories of many machines. Times are seconds of the world, from 0."""

    def __init__(
        self,
        seed: int = 1,
        ways: Ways | None = None,
        *,
        membership: MembershipSettings | None = None,
        directory: GossipSection | None = None,
        needs_certificates: bool = False,
        agenda: EventQueue | None = None,
        carry: Callable[[PeerMachine, Send], None] | None = None,
    ) -> None:
        """`agenda` is that of a larger world; `carry` sends messages instead of `ways`.

        Whoever carries it calls `arrive` in the end.
        """
        self.seed = seed
        self.ways = ways or Ways()
        self.agenda = agenda or EventQueue()
        self._carry = carry
        self.machines: dict[str, PeerMachine] = {}
        self.on_event: Callable[[PeerMachine, ForParts], None] | None = None
        """Called with each event for the parts of a machine."""
        self.on_send: Callable[[PeerMachine, Send], None] | None = None
        """Called with what is sent, whether it arrives or not."""
        self._membership = membership
        self._directory = directory
        self._needs_certificates = needs_certificates
        self._delays = Rng(seed, "delays")
        self._losses = Rng(seed, "losses")
        self._sides: dict[str, int] = {}
        """The side of a partition of each machine; 0 by default."""
        self._answering = ("", "")
        """The receiver and the sender of the message that is being handled."""
        self._lives = 0

    @property
    def now_s(self) -> float:
        """The current time."""
        return self.agenda.now_s

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
        came_up_s: float | None = None,
        counters: Callable[[], tuple[LedgerRow, ...]] = tuple,
        rate: float = 1.0,
        decay: Decay = DECAY,
    ) -> PeerMachine:
        """Add a machine, or restart one without its state.

        `came_up_s`: when, if it was there before now. `counters` and `rate` are those of its node.
        """
        self._lives += 1
        clock = clock or Clock()
        member = Member(
            name=name,
            incarnation=0,
            state=MemberState.ALIVE,
            cluster=cluster,
            addresses=() if is_outward_only else (f"{name}:7333",),
            is_outward_only=is_outward_only,
            instance=instance or f"{name}-{self._lives}",
            cluster_name=cluster_name,
            parts=parts,
        )
        began_s = self.now_s if came_up_s is None else came_up_s
        core = ClusterMember(
            member,
            clock.at(began_s),
            incarnation=self._lives if incarnation is None else incarnation,
            signer=KeyedSigner(self.seed, name),
            verifier=KeyedVerifier(self.seed, self._needs_certificates),
            rng=generator(self.seed, f"{name}/{self._lives}"),
            decay=decay,
            counters=counters,
            rate=rate,
            seeds=seeds,
            membership=self._membership,
            directory=self._directory,
        )
        machine = PeerMachine(name, core, clock, is_outward_only)
        self.machines[name] = machine
        self.perform(machine, core.begin(clock.at(began_s)))
        return machine

    def crash(self, name: str) -> None:
        """Stop a machine without notice."""
        self.machines[name].is_up = False

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

    def up(self) -> list[PeerMachine]:
        """Return the machines that are up."""
        return [machine for machine in self.machines.values() if machine.is_up]

    def perform(self, machine: PeerMachine, effects: Iterable[Effect | BrokerReplied]) -> None:
        """Perform the effects of a core."""
        for effect in effects:
            if isinstance(effect, Send):
                self._send(machine, effect)
            elif isinstance(effect, WakeAt):
                at_s = machine.clock.world_s(effect.steady_s)
                machine.alarms[effect.part] = at_s
                self.agenda.at(at_s, partial(self._alarm, machine, effect.part, at_s))
            elif isinstance(effect, MembersChanged):
                machine.changes += effect.members
            elif isinstance(effect, PeerNoticed):
                machine.notices.append(effect)
                machine.member.incidents.note(effect)
            elif isinstance(effect, Inquired):
                self.perform(machine, machine.inquiries.answer(effect, self._echo(machine, effect)))
            elif isinstance(effect, BrokerReplied):
                assert effect.number not in machine.answers, "a question ended twice"
                table = effect.reply.answer
                machine.answers[effect.number] = None if table is None else table.requirements
            elif isinstance(effect, DocumentReceived):
                machine.documents.append(effect.document)
        if self.on_event is not None:
            for event in machine.member.drain_events():
                self.on_event(machine, event)

    def _echo(self, machine: PeerMachine, inquired: Inquired) -> Told:
        broker_at = machine.broker_at or machine.name
        is_broker = broker_at == machine.name
        answerers: dict[type, Answerer] = {
            AskMatchFor: lambda asked, _: MatchTable(asked.requirements, (), ())
        }
        now = machine.clock.at(self.now_s)
        return answer_of(inquired, answerers, machine.name, broker_at, now, is_broker=is_broker)

    # --- within ----------------------------------------------------------------------------------

    def _send(self, machine: PeerMachine, send: Send) -> None:
        to = self.machines.get(send.machine)
        message = send.message
        if self.on_send is not None:
            self.on_send(machine, send)
        if self._carry is not None:
            self._carry(machine, send)
            return
        if self.ways.through_wire:
            message = unpack(pack(send.part, message))
        if to is None or self._losses.chance(self.ways.loss):
            return
        legs = 1
        if to.cannot_be_reached and not self._answers(machine, to):
            if not self.ways.has_relays:
                return
            legs = 2
        delay_s = sum(self._delay_s() for _ in range(legs))
        event = Delivered(machine.name, send.part, message)
        self.agenda.after(delay_s, partial(self.arrive, to, event))

    def _answers(self, machine: PeerMachine, to: PeerMachine) -> bool:
        """Return True if a message answers `to`, over the connection that `to` opened."""
        return self._answering == (machine.name, to.name)

    def _delay_s(self) -> float:
        return min(self._delays.lognormal(self.ways.delay_s, SIGMA), self.ways.delay_max_s)

    def arrive(self, machine: PeerMachine, event: Delivered) -> None:
        """Deliver a message to a machine, unless it is down or on another side."""
        if not machine.is_up:
            return
        if self._sides.get(machine.name, 0) != self._sides.get(event.sender, 0):
            return
        if machine.is_asleep:
            machine.inbox.append(event)
            return
        self._answering = (machine.name, event.sender)
        self._handle(machine, event)
        self._answering = ("", "")

    def _alarm(self, machine: PeerMachine, part: Part, at_s: float) -> None:
        if not machine.is_up or machine.is_asleep or machine.alarms.get(part) != at_s:
            return
        del machine.alarms[part]
        self._handle(machine, Wake(part))

    def _wake_up(self, machine: PeerMachine) -> None:
        machine.is_asleep = False
        late, machine.inbox = machine.inbox, []
        for event in late:
            self._handle(machine, event)
        for part, at_s in list(machine.alarms.items()):
            if at_s <= self.now_s:
                self._alarm(machine, part, at_s)

    def _handle(self, machine: PeerMachine, event: Delivered | Wake) -> None:
        of_part = machine.inquiries if event.part is Part.INQUIRY else machine.member
        self.perform(machine, of_part.handle(event, machine.clock.at(self.now_s)))

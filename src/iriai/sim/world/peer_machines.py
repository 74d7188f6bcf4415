"""Memberships and directories of many machines in virtual time, without other parts.

Input: machines, messages that arrive for them, what happens to them. Output: messages, which
`carry` brings to the others, and events for the parts of a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from iriai.cluster.member import ClusterMember, ForParts
from iriai.config.sections import GossipSection
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay
from iriai.protocol.membership.cluster_core import ClusterCore
from iriai.protocol.membership.membership import MembershipSettings
from iriai.protocol.messages.effects import (
    Delivered,
    Effect,
    Part,
    PeerNoticed,
    Send,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.members import Member
from iriai.sim.world.clock import Clock
from iriai.sim.world.event_queue import EventQueue
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier
from iriai.sim.world.rng import generator

DECAY = Decay(604_800.0)


@dataclass
class PeerMachine:
    """A machine of `PeerMachines`."""

    name: str
    member: ClusterMember
    clock: Clock
    is_up: bool = True
    alarms: dict[Part, float] = field(default_factory=dict)
    """By part, the moment of the world at which it wakes."""

    @property
    def peers(self) -> ClusterCore:
        """Its membership and directory."""
        return self.member.peers


class PeerMachines:
    """Memberships and directories of many machines. Times are seconds of the world, from 0."""

    machine_type: ClassVar[type[PeerMachine]] = PeerMachine
    membership: MembershipSettings | None = None
    """Its settings; None: the defaults."""
    directory: GossipSection | None = None

    def __init__(
        self, seed: int, agenda: EventQueue, carry: Callable[[PeerMachine, Send], None]
    ) -> None:
        """`carry` sends a message of a machine; whoever does that calls `arrive` in the end."""
        self.seed = seed
        self.agenda = agenda
        self._carry = carry
        self.machines: dict[str, PeerMachine] = {}
        self.on_event: Callable[[PeerMachine, ForParts], None] | None = None
        """Called with each event for the parts of a machine."""
        self.lives = 0
        """The number of starts of machines."""

    @property
    def now_s(self) -> float:
        """The current time."""
        return self.agenda.now_s

    def verifier(self) -> KeyedVerifier:
        """Return the keys that a new machine knows."""
        return KeyedVerifier(self.seed)

    def start(
        self,
        member: Member,
        clock: Clock,
        *,
        incarnation: int,
        came_up_s: float,
        seeds: Sequence[str] = (),
        counters: Callable[[], tuple[LedgerRow, ...]] = tuple,
        rate: float = 1.0,
        decay: Decay = DECAY,
    ) -> PeerMachine:
        """Add a machine, or restart one without its state; it came up then.

        `counters` and `rate` are those of its node.
        """
        self.lives += 1
        name = member.name
        core = ClusterMember(
            member,
            clock.at(came_up_s),
            incarnation=incarnation,
            signer=KeyedSigner(self.seed, name),
            verifier=self.verifier(),
            rng=generator(self.seed, f"{name}/{self.lives}"),
            decay=decay,
            counters=counters,
            rate=rate,
            seeds=seeds,
            membership=self.membership,
            directory=self.directory,
        )
        machine = self.machines[name] = self.machine_type(name, core, clock)
        self.perform(machine, core.begin(clock.at(came_up_s)))
        return machine

    def crash(self, name: str) -> None:
        """Stop a machine without notice."""
        self.machines[name].is_up = False

    def perform(self, machine: PeerMachine, effects: Iterable[Effect]) -> None:
        """Perform the effects of a core, and deliver what follows for the machine's parts."""
        for effect in effects:
            self.perform_one(machine, effect)
        if self.on_event is not None:
            for event in machine.member.drain_events():
                self.on_event(machine, event)

    def perform_one(self, machine: PeerMachine, effect: Effect) -> None:
        """Perform one effect."""
        if isinstance(effect, Send):
            self._carry(machine, effect)
        elif isinstance(effect, WakeAt):
            at_s = machine.clock.world_s(effect.steady_s)
            machine.alarms[effect.part] = at_s
            self.agenda.at(at_s, partial(self.wake, machine, effect.part, at_s))
        elif isinstance(effect, PeerNoticed):
            machine.member.incidents.note(effect)

    def arrive(self, machine: PeerMachine, event: Delivered) -> None:
        """Deliver a message to a machine, unless it is down."""
        if machine.is_up:
            self.handle(machine, event)

    def wake(self, machine: PeerMachine, part: Part, at_s: float) -> None:
        """Let the alarm of a part go off, unless a later one was set or the machine is down."""
        if machine.is_up and machine.alarms.get(part) == at_s:
            del machine.alarms[part]
            self.handle(machine, Wake(part))

    def handle(self, machine: PeerMachine, event: Delivered | Wake) -> None:
        """Handle an event, and perform the effects."""
        self.perform(machine, machine.member.handle(event, machine.clock.at(self.now_s)))

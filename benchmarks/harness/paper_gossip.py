"""Many directories of the product and nothing else, in rounds: how far one entry gets (paper 001).

A round is a minute of the paper; the ways between machines take no time against that. A machine
that can only connect outwards gets what others say only in answer to itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from experiments.rumours import Known, Rumour, RumourDirectory, RumourSettings
from numpy.typing import NDArray

from iriai.config.sections import GossipSection
from iriai.model.instant import Instant
from iriai.protocol.directory.directory import Directory
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.publisher import Publisher
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.entries import Entry, EntryKey, EntryKind, signed_content
from iriai.protocol.messages.gossip import ToDirectory
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.misbehaviour import Incidents
from iriai.protocol.sampling import some
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier
from iriai.sim.world.rng import generator

ROUND_S = 60.0
CLUSTER_NAME = "grid"
Spreading = GossipSection | RumourSettings
"""How entries spread: as in the product, or as in the paper."""
LIFETIME_S = 86_400.0
"""Longer than any run: what is told once has no end in the paper."""


@dataclass
class PaperMachine:
    """One machine: its table, what it publishes, and how it tells others."""

    name: str
    table: EntryTable
    publisher: Publisher
    directory: Directory

    def publish(self, body: bytes, now: Instant) -> None:
        """Publish its ad."""
        self.publisher.publish(EntryKind.AD, body, now)
        self.publisher.due(now)
        self.learn("", now)

    def tell_once(self, body: bytes, signer: KeyedSigner, now: Instant) -> None:
        """Publish one ad that is never refreshed."""
        draft = Entry(self.name, EntryKind.AD, CLUSTER_NAME, 1, 1, LIFETIME_S, body, b"")
        signature = signer.sign(signed_content(draft))
        self.table.put(msgspec.structs.replace(draft, signature=signature), now)
        self.learn("", now)

    def learn(self, sender: str, now: Instant) -> None:
        """What is new in the table is told from now on."""
        came, gone = self.table.drain_changes()
        self.directory.changed(came, gone, sender, now)

    def ad(self, machine: str) -> bytes | None:
        """What it knows of another's ad."""
        entry = self.table.get(EntryKey(machine, EntryKind.AD))
        return entry.body if entry is not None else None


class PaperWorld:
    """So many machines that know each other's names."""

    def __init__(self, count: int, seed: int, settings: Spreading, unreachable: int = 0) -> None:
        """The last `unreachable` ones can only connect outwards.

        In the paper's mode nobody knows which those are; in the product's everybody does.
        """
        self.names = [f"m{number}" for number in range(count)]
        self.unreachable = frozenset(self.names[count - unreachable :])
        self.machines = {name: self._machine(name, seed, settings) for name in self.names}
        is_known = isinstance(settings, GossipSection)
        partners = [n for n in self.names if not (is_known and n in self.unreachable)]
        for name, machine in self.machines.items():
            machine.directory.partners = [each for each in partners if each != name]
        self._order = generator(seed, "order")
        self.round = 0

    @property
    def now(self) -> Instant:
        """Of the round."""
        return Instant(self.round * ROUND_S, 1.8e9 + self.round * ROUND_S)

    def run_round(self) -> None:
        """Each machine in turn tells one other, and all that follows from it."""
        self.round += 1
        for name in some(self.names, len(self.names), self._order):
            self.exchange(name, self.now)

    def exchange(self, name: str, now: Instant) -> None:
        """One machine's turn."""
        machine = self.machines[name]
        machine.directory.handle("", None, now)
        pending = deque(self._said(machine, now, answering=""))
        while pending:
            sender, to, message = pending.popleft()
            receiver = self.machines[to]
            if isinstance(message, Rumour | Known):
                assert isinstance(receiver.directory, RumourDirectory)
                receiver.directory.hear(sender, message, now)
            else:
                receiver.directory.handle(sender, message, now)
            receiver.learn(sender, now)
            pending.extend(self._said(receiver, now, answering=sender))

    def reach(self, machine: str) -> float:
        """The part of all machines that know another's ad."""
        knowing = sum(each.ad(machine) is not None for each in self.machines.values())
        return knowing / len(self.names)

    @property
    def is_quiet(self) -> bool:
        """Whether nobody tells anything any more."""
        directories = (machine.directory for machine in self.machines.values())
        return not any(each.told for each in directories if isinstance(each, RumourDirectory))

    def _said(
        self, machine: PaperMachine, now: Instant, answering: str
    ) -> Iterator[tuple[str, str, ToDirectory | Rumour | Known]]:
        said: list[tuple[str, ToDirectory | Rumour | Known]] = [
            (effect.machine, effect.message)
            for effect in machine.directory.end_turn(now)
            if isinstance(effect, Send) and isinstance(effect.message, ToDirectory)
        ]
        if isinstance(machine.directory, RumourDirectory):
            said += machine.directory.drain_rumours()
        for to, message in said:
            if to not in self.unreachable or to == answering:  # else the turn is lost
                yield machine.name, to, message

    @staticmethod
    def _machine(name: str, seed: int, settings: Spreading) -> PaperMachine:
        notices = Incidents()
        table = EntryTable(name, CLUSTER_NAME, KeyedVerifier(seed), notices)
        member = Member(name, 0, MemberState.ALIVE, CLUSTER_NAME, (f"{name}:7333",))
        publisher = Publisher(member, KeyedSigner(seed, name), table, notices, incarnation=1)
        rng = generator(seed, name)
        directory = (
            Directory(publisher, table, notices, rng, settings)
            if isinstance(settings, GossipSection)
            else RumourDirectory(publisher, table, notices, rng, settings)
        )
        return PaperMachine(name, table, publisher, directory)


def spread(
    count: int, seed: int, settings: Spreading, unreachable: int, rounds_max: int
) -> list[float]:
    """The reach of one machine's first ad after each round, from round 0, until nothing moves."""
    world = PaperWorld(count, seed, settings, unreachable)
    world.machines["m0"].tell_once(b"ad", KeyedSigner(seed, "m0"), world.now)
    reached = [world.reach("m0")]
    while world.round < rounds_max and reached[-1] < 1.0:
        world.run_round()
        reached.append(world.reach("m0"))
        if isinstance(settings, RumourSettings) and world.is_quiet:
            break
    return reached


class ProductTables:
    """The product's directories as tables of a grid (`paper_grid.Tables`): one exchange a minute.

    What they exchange is the same as in the paper: afterwards both have the newer of each two ads.
    Digests come first, so that only what differs is sent.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._world = PaperWorld(count, seed, GossipSection(period_s=ROUND_S))

    def exchange(self, machine: int, ad: int, now_s: float) -> None:
        """A machine publishes its ad if it changed, and exchanges with one other."""
        name = self._world.names[machine]
        now = Instant(now_s, 1.8e9 + now_s)
        self._world.machines[name].publish(ad.to_bytes(8, "big"), now)
        self._world.exchange(name, now)

    def view(self, machine: int) -> NDArray[np.int64]:
        """What a machine knows of all."""
        table = self._world.machines[self._world.names[machine]]
        ads = [table.ad(name) or b"" for name in self._world.names]
        return np.array([int.from_bytes(ad, "big") for ad in ads], dtype=np.int64)

"""A site of machines that are none: one process speaks as all whom one real daemon has to do with.

They have real keys and certificates, an address each, and the product's links, directory and
publications; but one table for a cluster, so what one of them learns all have. At rest they do to
the daemon what a cluster of their size does: some probe it in turn, one acknowledges what it
reports to its broker, entries are published again when that is due, and counters grow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from socket import create_server, socket
from typing import NamedTuple

from iriai.config.sections import GossipSection
from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.mesh import Listener, Mesh
from iriai.identity.certificates.authority import Authority
from iriai.identity.certificates.machine_identity import Enrolment, MachineIdentity
from iriai.identity.trust.trust import Trust
from iriai.jobs.payloads import PayloadStore
from iriai.links.address_book import AddressBook
from iriai.machine.events import MachineEvent
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.protocol.directory.directory import Directory
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.publisher import PACES, REFRESH, Publisher
from iriai.protocol.directory.validation import usage_body
from iriai.protocol.ledger import cluster_usage, ledger_sync
from iriai.protocol.ledger.ledger import BatchRow, LedgerBatch, batch_body
from iriai.protocol.messages import gossip
from iriai.protocol.messages.candidates import CANDIDATES_MAX, first_of
from iriai.protocol.messages.effects import Delivered, Part, Send
from iriai.protocol.messages.elections import AskBroker, BrokerIs, Heard
from iriai.protocol.messages.entries import SITE_WIDE, DigestRow, EntryKey, EntryKind
from iriai.protocol.messages.members import ClusterUsage, Member, MemberState
from iriai.protocol.messages.scheduling import Idle, Message, Wants
from iriai.protocol.misbehaviour import Incidents
from iriai.system.clock import now as read_clocks

SITE = "lab"
PORT = 6174
ACCOUNTS = 200
"""Of the site; each machine has counted some of them, the sums of a cluster have all."""
ACCOUNTS_A_MACHINE = 10
HALF_LIFE_S = 604_800.0
WATCHERS = 8
"""Machines that probe the daemon at a time: each member probes eight, and each is one of eight."""
WATCHER_S = 120.0
"""One of them is replaced after so long."""
LATELY_S = 12.0
"""How long what was published is offered as learned lately."""
NETWORK = "10.99"
"""Addresses of the machines, all of the loopback device of a network namespace."""


class Plan(NamedTuple):
    """The size of a site; the daemon is one machine of its first cluster."""

    machines: int
    clusters: int
    homes: int

    @property
    def each(self) -> int:
        """The machines of a cluster."""
        return self.machines // self.clusters


class SyntheticSite:
    """The machines of a site but one, and the authority of all."""

    def __init__(self, plan: Plan, directory: Path, rng: Random) -> None:
        self.plan = plan
        self.rng = rng
        self.directory = directory
        self.daemon = "d0"
        self.authority = Authority.create(SITE, time.time())
        self._issuer = self.authority.issuer("first", time.time())
        self.own = self.cluster_name(0)
        verifier = Trust(self.authority.certificate.der)
        self.table = EntryTable("", SITE, verifier, Incidents(), cluster=self.own)
        self.trust = verifier
        self.machines: dict[str, SyntheticMachine] = {}
        self._lately: dict[EntryKey, float] = {}
        self._due: list[tuple[float, str, EntryKind]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.first: tuple[str, ...] = ()

    def table_of(self, cluster: str) -> EntryTable:
        """Return a table of another cluster."""
        return EntryTable("", SITE, self.trust, Incidents(), cluster=cluster)

    def cluster_name(self, number: int) -> str:
        """The name of a cluster; a site with one names none."""
        return f"c{number}" if self.plan.clusters > 1 else ""

    def enrolment(self, name: str) -> tuple[Enrolment, bytes]:
        """Return the key of a new machine, and its certificate."""
        enrolment = Enrolment.begin(name)
        return enrolment, self._issuer.machine(enrolment.request(), name, time.time()).der

    def identity(self, name: str, place: Path, owner: tuple[int, int] | None) -> MachineIdentity:
        """Write the identity of a machine into a new directory."""
        enrolment = Enrolment.begin(name)
        certificate = self._issuer.machine(enrolment.request(), name, time.time())
        return MachineIdentity.create(
            place, enrolment, certificate, self.authority.certificate, owner=owner
        )

    def begin(self) -> None:
        """Make the machines that the daemon may meet, and let them publish."""
        homes_each = max(1, self.plan.homes // self.plan.clusters)
        for number in range(self.plan.clusters):
            count = self.plan.each - 1 if number == 0 else CANDIDATES_MAX
            for index in range(count):
                self._add(number, index, has_home=index < homes_each)
        own = [each.member for each in self.machines.values() if each.is_near]
        called = own[0].cluster_called
        self.first = tuple(first_of(called, own, CANDIDATES_MAX))
        now = read_clocks("site")
        for machine in self.machines.values():
            machine.publish_all(now)
        self._tasks = [asyncio.create_task(each) for each in (self._publish_again(), self._watch())]

    def close(self) -> None:
        """End all links."""
        for task in self._tasks:
            task.cancel()
        for machine in self.machines.values():
            machine.close()

    @property
    def seeds(self) -> list[tuple[str, str]]:
        """Names and addresses with which the daemon begins."""
        near = [each for each in self.machines.values() if each.is_near]
        return [(each.name, each.address) for each in near[:8]]

    def publishes(self, key: EntryKey, now: Instant) -> None:
        """Note that an entry was published."""
        self._lately[key] = now.steady_s

    def lately(self, now: Instant) -> Iterator[EntryKey]:
        """The keys that all have learned lately."""
        self._lately = {
            key: at_s for key, at_s in self._lately.items() if now.steady_s - at_s < LATELY_S
        }
        return iter(self._lately)

    def _add(self, cluster: int, index: int, *, has_home: bool) -> None:
        number = len(self.machines) + 1
        address = f"{NETWORK}.{number // 250}.{number % 250 + 2}:{PORT}"
        name = f"c{cluster}m{index}"
        parts = ("node", "home", "broker") if has_home else ("node", "broker")
        member = Member(
            name,
            0,
            MemberState.ALIVE,
            SITE,
            (address,),
            parts=parts,
            steadiness=0.97 if index < CANDIDATES_MAX else 0.7,
            instance=f"{number:032x}",
            cluster_name=self.cluster_name(cluster),
        )
        self.machines[name] = SyntheticMachine(self, member, address, is_near=cluster == 0)

    async def _publish_again(self) -> None:
        """Publish entries when their time has come, evenly over the time."""
        near = [each for each in self.machines.values() if each.is_near]
        gateways = [each for each in self.machines.values() if not each.is_near]
        refresh_s = {kind: pace.lifetime_s * REFRESH for kind, pace in PACES.items()}
        rates = {
            EntryKind.MEMBER: (near, len(near) / refresh_s[EntryKind.MEMBER]),
            EntryKind.LEDGER: (near, len(near) / ledger_sync.pace_s(len(near) + 1)),
            EntryKind.GATEWAY: (gateways, len(gateways) / refresh_s[EntryKind.GATEWAY]),
            EntryKind.USAGE: (gateways[::CANDIDATES_MAX], self._usage_rate()),
        }
        while True:
            await asyncio.sleep(1.0)
            now = read_clocks("site")
            for kind, (machines, per_s) in rates.items():
                if machines and self.rng.random() < per_s:
                    self.rng.choice(machines).publish(kind, now)

    def _usage_rate(self) -> float:
        clusters = self.plan.clusters
        body = len(self.usage_body(0.0, time.time()))
        return (clusters - 1) / cluster_usage.pace_s(body, clusters)

    def usage_body(self, more_s: float, wall_s: float) -> bytes:
        """The sums of a cluster, after it counted so much more for each account."""
        rows = [
            LedgerRow(Account("lab", f"u{n}"), 1000.0 + more_s, wall_s - 3600.0, 70, 16_789.0)
            for n in range(ACCOUNTS)
        ]
        batch = LedgerBatch(0, wall_s, tuple(map(BatchRow.of, rows)), 1000.0)
        return batch_body(batch)

    async def _watch(self) -> None:
        """Let some machines probe the daemon in turn, once a second."""
        near = [each for each in self.machines.values() if each.is_near]
        watchers = self.rng.sample(near, min(WATCHERS, len(near)))
        turn = 0
        while True:
            await asyncio.sleep(1.0)
            turn += 1
            if turn % WATCHER_S == 0:
                watchers[self.rng.randrange(len(watchers))] = self.rng.choice(near)
            watchers[turn % len(watchers)].probe(self.daemon, turn)


class SyntheticMachine:
    """A machine of a synthetic site; it has links once somebody dials it, or it dials."""

    def __init__(self, site: SyntheticSite, member: Member, address: str, *, is_near: bool) -> None:
        """`is_near`: of the cluster of the daemon."""
        self.name = member.name
        self.member = member
        self.address = address
        self.is_near = is_near
        self._site = site
        self._identity = site.identity(self.name, site.directory / self.name, None)
        self._more_s = 0.0
        self._mesh: Mesh | None = None
        # Of another cluster only some entries are for the cluster of the daemon.
        self._table = site.table if is_near else site.table_of(member.cluster_called)
        self._publisher = Publisher(
            member, self._identity, self._table, Incidents(), incarnation=int(time.time())
        )
        self._directory = Directory(
            self._publisher, site.table, Incidents(), site.rng, GossipSection()
        )
        host, _, port = address.rpartition(":")
        self._door: socket = create_server((host, int(port)))
        self._door.setblocking(False)
        asyncio.get_running_loop().add_reader(self._door.fileno(), self._links)

    # --- what it publishes -----------------------------------------------------------------------

    def publish_all(self, now: Instant) -> None:
        """Publish everything, at a moment of its own: the machine has been there for long."""
        ago_s = self._site.rng.random() * PACES[EntryKind.GATEWAY].lifetime_s * REFRESH
        now = Instant(now.steady_s - ago_s, now.wall_s - ago_s)
        site, der = self._site, self._identity.certificate.der
        site.trust.learn(der)
        self._publisher.publish(EntryKind.CERTIFICATE, der, now)
        if self.is_near:
            self._publisher.announce(self.member, now)
            self.publish(EntryKind.LEDGER, now)
        else:
            self._publisher.publish(EntryKind.GATEWAY, b"", now)
            self._tell(now)
            if self.name.endswith("m0"):
                self.publish(EntryKind.USAGE, now)

    def publish(self, kind: EntryKind, now: Instant) -> None:
        """Publish a kind again."""
        self._more_s += 10.0
        publisher = self._publisher
        if kind is EntryKind.MEMBER:
            publisher.announce(self.member, now)
        elif kind is EntryKind.GATEWAY:
            publisher.withdraw(kind)
            publisher.publish(kind, b"", now)
        elif kind is EntryKind.LEDGER:
            publisher.withdraw(kind)
            publisher.publish(kind, self._batch(now.wall_s), now)
        else:
            publisher.withdraw(kind)
            batch = self._site.usage_body(self._more_s, now.wall_s)
            usage = ClusterUsage(self.member.cluster_called, publisher.certificate, batch)
            publisher.publish(kind, usage_body(usage), now)
        self._tell(now)

    def _tell(self, now: Instant) -> None:
        """Give what was published and concerns the cluster of the daemon to all of it."""
        came, _ = self._table.drain_changes()
        for entry in came:
            if self.is_near or entry.kind in SITE_WIDE:
                self._site.table.put(entry, now)
                self._site.publishes(entry.key, now)

    def _batch(self, wall_s: float) -> bytes:
        first = int(self.name.rpartition("m")[2])
        rows = [
            LedgerRow(
                Account("lab", f"u{(first + n) % ACCOUNTS}"),
                1000.0 + self._more_s,
                wall_s - 3600.0,
                7,
                16_789.0,
            )
            for n in range(ACCOUNTS_A_MACHINE)
        ]
        return batch_body(LedgerBatch(0, wall_s, tuple(map(BatchRow.of, rows)), 8.0))

    # --- links -----------------------------------------------------------------------------------

    def _links(self) -> Mesh:
        """Return its links; the first time, make them."""
        if self._mesh is None:
            asyncio.get_running_loop().remove_reader(self._door.fileno())
            book = AddressBook(self.name)
            daemon = f"{NETWORK}.0.1:{PORT}"
            book.update([Member(self._site.daemon, 1, MemberState.ALIVE, SITE, (daemon,))])
            listener = Listener(self._event, _takes, _no_texts, _ignore)
            credentials = Credentials.of(self._identity, self._site.trust)
            payloads = PayloadStore(dict[str, bytes]().__getitem__)
            self._mesh = Mesh(credentials, book, listener, payloads, self._site.rng)
            self._mesh.acceptor.open([self._door])
            self._mesh.begin()
        return self._mesh

    def close(self) -> None:
        """End its links."""
        if self._mesh is not None:
            self._mesh.close()
        else:
            asyncio.get_running_loop().remove_reader(self._door.fileno())
            self._door.close()

    def probe(self, machine: str, number: int) -> None:
        """Probe a machine, and offer it what the cluster knows."""
        now = read_clocks("site")
        offer = gossip.Offer(
            self._site.table.digest.checksum,
            tuple(self._lately_rows(now)),
            self.member.cluster_name,
        )
        self._send(machine, Part.MEMBERSHIP, gossip.Probe(number))
        self._send(machine, Part.DIRECTORY, offer)

    def _lately_rows(self, now: Instant) -> list[DigestRow]:
        self._directory._lately = dict.fromkeys(self._site.lately(now), 2)  # noqa: SLF001
        return self._directory._lately_rows()  # noqa: SLF001 - all share what they learned

    def _send(self, machine: str, part: Part, message: Message) -> None:
        self._links().send([Send(machine, part, message)])

    def _event(self, event: MachineEvent) -> None:
        if isinstance(event, Delivered):
            self._delivered(event.sender, event.part, event.message)

    def _delivered(self, sender: str, part: Part, message: Message) -> None:
        now = read_clocks("site")
        if isinstance(message, gossip.Probe):
            self._send(sender, Part.MEMBERSHIP, gossip.ProbeAnswer(message.number))
        elif isinstance(message, AskBroker):
            is_first = self.name == self._site.first[0]
            broker = BrokerIs(self._site.first[0], 1.0 if is_first else 0.0)
            self._send(sender, Part.SUCCESSION, broker)
        elif isinstance(message, Idle):
            heard = Heard(1.0, (message.incarnation, message.version))
            self._send(sender, Part.SUCCESSION, heard)
        elif isinstance(message, Wants):
            self._send(sender, Part.SUCCESSION, Heard(1.0))
        elif part is Part.DIRECTORY and isinstance(message, gossip.ToDirectory):
            self._lately_rows(now)
            self._directory.handle(sender, message, now)
            for effect in self._directory.end_turn(now):
                if isinstance(effect, Send):
                    self._send(effect.machine, effect.part, effect.message)
            self._site.table.drain_changes()


def _takes(_sender: str, _part: Part, _message: Message) -> bool:
    return True


def _no_texts(*_: object) -> None:
    pass


_ignore = partial(_no_texts)

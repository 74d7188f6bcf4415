"""This machine in its cluster: its links, the members, and what it publishes.

Membership and directory are not part of the machine's turns: nothing that they say waits for a
record. Who is there goes to the machine as `PeersChanged`, and to the address book.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from random import Random
from typing import TYPE_CHECKING

import msgspec

from iriai.cluster.member import ClusterMember, SeenMember
from iriai.cluster.metrics import MEASURE_S
from iriai.cluster.seeds import seed_member
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.cluster.memory import ClusterMemory
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import DocumentArrived, Outgoing, StreamMessage
from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.mesh import Listener, Mesh
from iriai.daemon.net.own_addresses import OwnAddresses
from iriai.daemon.payloads.remote_payloads import RemotePayloads
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.trust.document_entries import document_entry, document_kind
from iriai.jobs.payloads import PayloadStore
from iriai.links.address_book import AddressBook
from iriai.machine.events import MachineEvent
from iriai.model.instant import Instant
from iriai.policy.accounting.decay_rule import decay_of
from iriai.protocol.messages.effects import (
    Delivered,
    DocumentReceived,
    Effect,
    LinkUp,
    MembersChanged,
    Part,
    PeerBlocked,
    PeerNoticed,
    Send,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.entries import EntryKind
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.messages.scheduling import Begun
from iriai.reports.cluster import clock_trouble, cluster_sight, ejection_proposals, lost_front_end
from iriai.system.clock import now as read_clocks
from iriai.wire.machines import LinkRow, MemberRow
from iriai.wire.reports import ClusterSight

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState

log = logging.getLogger(__name__)


class ClusterNetwork:
    """The links, members and publications of this machine."""

    def __init__(
        self,
        settings: DaemonSettings,
        cluster: ClusterState,
        engine: Engine,
        payloads: PayloadStore,
        texts: RemotePayloads,
        inquirer: BrokerRpc,
        addresses: OwnAddresses,
    ) -> None:
        """`inquirer` hears what concerns its questions."""
        self._settings = settings
        self._gossip = settings.configuration.gossip
        self._cluster = cluster
        self._engine = engine
        engine.routes.take(PeerNoticed, self._note)
        engine.routes.take(Outgoing, lambda outgoing: self.mesh.send(outgoing.sends))
        self._inquirer = inquirer
        self._addresses = addresses
        self._loop = asyncio.get_running_loop()
        self._alarms: dict[Part, asyncio.TimerHandle] = {}
        self._measuring: asyncio.TimerHandle | None = None
        self._online: set[str] = set()
        identity, trust = cluster.identity, cluster.trust
        rng = Random(secrets.randbits(64))
        role = settings.role
        on_host = {cluster.front_end: role.front_address} if role.front else {}
        called = settings.configuration.cluster.name or identity.cluster
        self.book = AddressBook(identity.name, on_host, cluster=called)
        self.book.begin(seed_member(each, identity.cluster) for each in cluster.seeds)
        self._memory = ClusterMemory(
            cluster.files,
            engine,
            identity.name,
            lambda: self.member.peers.members,
            self.book.addresses,
            self._announce,
        )
        passport = Credentials.of(identity, trust)
        self.mesh = self._own_mesh(passport, payloads, texts, rng)
        own = self._own_member(passport.instance)
        now = read_clocks("cluster")
        self.member = ClusterMember(
            own,
            now,
            incarnation=int(now.wall_s),
            signer=identity,
            verifier=trust,
            rng=rng,
            decay=decay_of(settings.configuration.order),
            counters=engine.machine.counters,
            rate=engine.machine.rate,
            seeds=[e.name for e in cluster.seeds if e.addresses or e.name == cluster.front_end],
            directory=self._gossip,
        )

    # --- for the daemon --------------------------------------------------------------------------

    def begin(self) -> None:
        """Accept connections, and announce this machine."""
        now = read_clocks("cluster")
        host_door = self._settings.host_door
        doors = [*self._settings.doors, *([host_door] if host_door is not None else [])]
        self.mesh.acceptor.open(doors)
        self.mesh.begin()
        self._perform(self.member.begin(now), now)
        der = self._cluster.identity.certificate.der
        self._perform(self.member.publish(EntryKind.CERTIFICATE, der, now), now)
        self.spread()
        self._memory.begin()
        self._measure_links()

    def spread(self) -> None:
        """Publish the operators' documents that this machine has."""
        now = read_clocks("cluster")
        identity = self._cluster.identity
        for kind, _, raw in self._cluster.spread():
            entry = document_entry(identity.cluster, kind, raw, identity.authority)
            self._perform(self.member.submit(entry, now), now)

    def seek(self, machine: str) -> bool:
        """Ask all other clusters of the site for a machine; return whether there are any."""
        now = read_clocks("cluster")
        asked = self.member.locate(machine, now, is_everywhere=True)
        self._perform(asked, now)
        return bool(asked)

    def leave(self) -> None:
        """Announce that this machine leaves."""
        now = read_clocks("cluster")
        self._perform(self.member.leave(now), now)

    def seen(self) -> list[SeenMember]:
        """Return all known members in any state, this machine first.

        Without those that were ejected and are gone.
        """
        found = self.member.seen(self.mesh.core.last_contact_s, read_clocks("cluster"))
        words = self._cluster.trust.ejection_words
        return [each for each in found if each.member.is_present or not words(each.member.name)]

    def sight(self) -> ClusterSight:
        """Return the cluster as this machine sees it."""
        name = self._settings.configuration.cluster.name or self._cluster.identity.cluster
        machine, told = self._engine.machine, self._memory.uptime.told
        period_s = self._gossip.period_s
        links = self.rows()
        return cluster_sight(name, self.member, machine, self.seen(), links, told, period_s)

    def members(self) -> tuple[MemberRow, ...]:
        """Return the online members as rows for people."""
        present = self.member.present()
        return tuple(msgspec.convert(each, MemberRow, from_attributes=True) for each in present)

    def rows(self) -> tuple[LinkRow, ...]:
        """Return the state of each link, for people."""
        return self.mesh.core.rows(read_clocks("cluster").wall_s)

    def trouble(self) -> list[str]:
        """Return problems of links and misbehaviour of members, one sentence each."""
        offences = self.mesh.core.violations.rows(read_clocks("cluster").steady_s)
        incidents = self.member.incidents
        noticed = incidents.rows() + ejection_proposals(self._cluster, incidents)
        links = self.rows()
        lost = lost_front_end(self._cluster.front_end, links)
        return lost + offences + noticed + clock_trouble(links)

    def close(self) -> None:
        """End all links."""
        for alarm in (*self._alarms.values(), self._measuring):
            if alarm is not None:
                alarm.cancel()
        self._memory.close()
        self.mesh.close()

    # --- what comes in ---------------------------------------------------------------------------

    def _happened(self, event: MachineEvent) -> None:
        if not isinstance(event, Delivered):
            if isinstance(event, LinkUp):
                now = read_clocks("cluster")
                self._perform(self.member.linked(event.machine, now), now)
            self._engine.event(event)
            self._engine.routes.tell(event)
        elif event.part is Part.INQUIRY:
            self._inquirer.handle(event)
        elif event.part is Part.STREAMS:
            self._engine.routes.tell(StreamMessage(event.sender, event.message))
        else:
            self._handle(event)

    def _handle(self, event: Delivered | Wake) -> None:
        now = read_clocks("cluster")
        self._perform(self.member.handle(event, now), now)

    def _locate(self, machine: str) -> None:
        now = read_clocks("cluster")
        self._perform(self.member.locate(machine, now), now)

    def _note(self, notice: PeerNoticed) -> None:
        log.warning("incident with %s", self.member.incidents.note(notice))

    def _perform(self, effects: list[Effect], now: Instant) -> None:
        """Perform the effects of this machine's membership in its cluster."""
        sends = [effect for effect in effects if isinstance(effect, Send)]
        if sends:
            self.mesh.send(sends)
        for effect in effects:
            match effect:
                case WakeAt(part, steady_s):
                    self._set_alarm(part, steady_s - now.steady_s)
                case MembersChanged(members):
                    self._members_changed(members)
                case DocumentReceived(entry):
                    arrived = DocumentArrived(document_kind(entry), entry.body, "the directory")
                    self._engine.routes.tell(arrived)
                case PeerNoticed():
                    self._note(effect)
                case PeerBlocked(machine, reason, for_s):
                    self.mesh.block(machine, reason, for_s)
                case _:
                    pass
        for event in self.member.drain_events():
            if not isinstance(event, Delivered):
                self._engine.event(event)
                continue
            if isinstance(event.message, Begun):
                self._engine.routes.tell(event.message)
            self._engine.news(event)

    def _measure_links(self) -> None:
        """Measure the links' traffic, every `MEASURE_S`."""
        now_s = read_clocks("cluster").steady_s
        links = self.rows()
        sent = sum(each.sent_bytes for each in links)
        received = sum(each.received_bytes for each in links)
        self.member.metrics.moved(sent, received, now_s)
        self._measuring = self._loop.call_later(MEASURE_S, self._measure_links)
        if self._addresses.current() != self.member.peers.publisher.member.addresses:
            self._announce()  # an interface came or went, or a join used another address

    def _set_alarm(self, part: Part, delay_s: float) -> None:
        alarm = self._alarms.pop(part, None)
        if alarm is not None:
            alarm.cancel()
        self._alarms[part] = self._loop.call_later(max(0.0, delay_s), self._handle, Wake(part))

    # --- who is there ----------------------------------------------------------------------------

    def _members_changed(self, members: tuple[Member, ...]) -> None:
        for member in members:
            if (member.name in self._online) != member.is_present:
                self._online ^= {member.name}
                log.info("%s is %s", member.name, member.state)
        self.book.update(members)
        self.mesh.members_changed(member.name for member in members if member.is_present)

    def _announce(self) -> None:
        """Publish this machine's changed member entry."""
        now = read_clocks("cluster")
        self._perform(self.member.announce(self._own_member(self.mesh.instance), now), now)

    def _own_mesh(
        self, passport: Credentials, payloads: PayloadStore, texts: RemotePayloads, rng: Random
    ) -> Mesh:
        section = self._settings.configuration.cluster
        listener = Listener(
            self._happened,
            self._engine.machine.takes,
            lambda sender, told, forget: texts.receive(sender, told, forget=forget),
            self._locate,
        )
        return Mesh(
            passport,
            self.book,
            listener,
            payloads,
            rng,
            is_outward_only=self._settings.is_outward_only,
            silence_s=section.silence_s,
            on_anonymous=self._engine.routes.tell,
        )

    def _own_member(self, instance: str) -> Member:
        settings, identity = self._settings, self._cluster.identity
        return Member(
            identity.name,
            0,
            MemberState.ALIVE,
            identity.cluster,
            self._addresses.current(),
            is_outward_only=settings.is_outward_only,
            parts=tuple(settings.role.parts),
            steadiness=round(self._memory.uptime.told, 3),
            instance=instance,
            cluster_name=settings.configuration.cluster.name or "",
        )

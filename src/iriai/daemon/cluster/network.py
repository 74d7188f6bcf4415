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

from iriai.cluster.member import ClusterMember
from iriai.cluster.metrics import MEASURE_S
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.cluster.entry_verifier import (
    TrustVerifier,
    document_entry,
    document_kind,
)
from iriai.daemon.cluster.incidents import IncidentLog
from iriai.daemon.cluster.member_cache import MemberCache
from iriai.daemon.cluster.seen_member import SeenMember
from iriai.daemon.cluster.uptime import UptimeRecord
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import DocumentArrived, Outgoing
from iriai.daemon.net.address_book import AddressBook
from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.local_links import LocalLinks
from iriai.daemon.net.mesh import LinkState, Listener, Mesh
from iriai.daemon.net.own_addresses import OwnAddresses
from iriai.daemon.payloads.payload_store import PayloadStore
from iriai.daemon.payloads.remote_payloads import RemotePayloads
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.output_fetcher import OutputFetcher
from iriai.daemon.tasks.output_server import OutputServer
from iriai.machine.core import MachineEvent
from iriai.model.instant import Instant
from iriai.model.job import Interaction
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay_rule import decay_of
from iriai.protocol.messages.effects import (
    Delivered,
    DocumentReceived,
    Effect,
    MembersChanged,
    Part,
    PeerBlocked,
    PeerNoticed,
    Send,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.entries import EntryKey, EntryKind
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.messages.output import AskOutput, Output
from iriai.protocol.messages.scheduling import Begun
from iriai.system.clock import now as read_clocks
from iriai.wire.machines import LinkRow, MemberRow
from iriai.wire.reports import ClusterSight

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.storage.cluster_files import SeedMember

log = logging.getLogger(__name__)

CLOCK_OFF_S = 60.0
"""A clock that is set by the network is within a second; the ledger keeps rows aside that are an
hour off, and certificates are refused before they begin."""


class ClusterNetwork:
    """The links, members and publications of this machine."""

    def __init__(
        self,
        settings: DaemonSettings,
        cluster: ClusterState,
        engine: Engine,
        payloads: PayloadStore,
        texts: RemotePayloads,
        back_ends: LocalLinks,
        inquirer: BrokerRpc,
        addresses: OwnAddresses,
    ) -> None:
        """`back_ends` are links within this host; `inquirer` hears what concerns its questions."""
        self._back_ends = back_ends
        self._settings = settings
        self._gossip = settings.configuration.gossip
        self._cluster = cluster
        self._engine = engine
        self.incidents = IncidentLog()
        engine.routes.take(PeerNoticed, self.incidents.note)
        engine.routes.take(Outgoing, lambda outgoing: self.send(outgoing.sends))
        self._inquirer = inquirer
        self._addresses = addresses
        self._loop = asyncio.get_running_loop()
        self._alarms: dict[Part, asyncio.TimerHandle] = {}
        self._measuring: asyncio.TimerHandle | None = None
        self._online: set[str] = set()
        identity, trust = cluster.identity, cluster.trust
        self._uptime = UptimeRecord(cluster.files, engine, self._announce)
        rng = Random(secrets.randbits(64))
        self.book = AddressBook(identity.name)
        self.book.update(_seed_member(each, identity.cluster) for each in cluster.seeds)
        passport = Credentials.of(identity, trust)
        self.mesh = self._own_mesh(passport, payloads, texts, rng)
        own = self._own_member(passport.instance)
        now = read_clocks("cluster")
        self.member = member = ClusterMember(
            own,
            now,
            incarnation=int(now.wall_s),
            signer=identity,
            verifier=TrustVerifier(trust),
            rng=rng,
            decay=decay_of(settings.configuration.order),
            counters=self._counters,
            rate=self._rate(),
            seeds=[each.name for each in cluster.seeds if each.addresses],
            directory=self._gossip,
        )
        self._kept = MemberCache(identity.name, cluster.files, engine, lambda: member.peers.members)
        spool, waits_for = settings.paths.spool, engine.machine.home.waits_for
        self._output = OutputServer(engine, spool, self.mesh.send)
        self.copies = OutputFetcher(spool, self.mesh.send, waits_for, self._is_far)

    def _is_far(self, machine: str) -> bool:
        """Return whether a machine's files are on another host."""
        return machine not in (self._cluster.identity.name, *self._back_ends.known.names())

    # --- for the daemon --------------------------------------------------------------------------

    def begin(self) -> None:
        """Accept connections, and announce this machine."""
        now = read_clocks("cluster")
        self.mesh.acceptor.open(list(self._settings.doors))
        self.mesh.begin()
        self._perform(self.member.begin(now), now)
        der = self._cluster.identity.certificate.der
        self._perform(self.member.publish(EntryKind.CERTIFICATE, der, now), now)
        self.spread()
        self._uptime.begin()
        self._measure_links()

    def send(self, sends: list[Send]) -> None:
        """Send messages of the cores to back ends of this host and members of the cluster."""
        within = [send for send in sends if self._back_ends.is_up(send.machine)]
        if within:
            self._back_ends.send(within)
        beyond = [send for send in sends if not self._back_ends.is_up(send.machine)]
        if beyond:
            self.mesh.send(beyond)

    def spread(self) -> None:
        """Publish the operators' documents that this machine has."""
        now = read_clocks("cluster")
        identity = self._cluster.identity
        for kind, _, raw in self._cluster.spread():
            entry = document_entry(identity.cluster, kind, raw, identity.authority)
            self._perform(self.member.submit(entry, now), now)

    def leave(self) -> None:
        """Announce that this machine leaves."""
        now = read_clocks("cluster")
        self._perform(self.member.leave(now), now)

    def present(self) -> list[Member]:
        """Return the other members that are online, sorted by name."""
        return self.member.present()

    def seen(self) -> list[SeenMember]:
        """Return all known members in any state, this machine first."""
        own = self._own_member(self.mesh.instance)
        found = [SeenMember(own, None)]
        now = read_clocks("cluster")
        peers = self.member.peers
        for member in peers.members.values():
            carried = peers.table.carried(EntryKey(member.name, EntryKind.MEMBER), now)
            ages_s = [carried.age_s] if carried is not None else []
            linked_s = self.mesh.last_contact_ago_s(member.name)
            if linked_s is not None:
                ages_s.append(linked_s)
            found.append(SeenMember(member, min(ages_s, default=None)))
        return found

    def sight(self) -> ClusterSight:
        """Return the cluster as this machine sees it."""
        states = [seen.member.state for seen in self.seen()]
        news_s = self.member.metrics.news_s
        offsets = [(s.offset.offset_s, s.machine) for s in self.mesh.states() if s.offset]
        worst_s, farthest = max(offsets, key=lambda each: abs(each[0]), default=(None, ""))
        machine = self._engine.machine
        observed = machine.home.stats
        return ClusterSight(
            self._settings.configuration.cluster.name or self._cluster.identity.cluster,
            {state: states.count(state) for state in MemberState},
            (machine.broker_at,),
            news_s[0] if news_s else None,
            news_s[1] if news_s else None,
            news_s[1] / self._gossip.period_s if news_s else None,
            *self.member.metrics.bytes_per_s,
            observed.begun,
            dict(observed.refusals),
            worst_s,
            farthest,
            self._uptime.told,
        )

    def members(self) -> tuple[MemberRow, ...]:
        """Return the online members as rows for people."""
        return tuple(msgspec.convert(m, MemberRow, from_attributes=True) for m in self.present())

    def rows(self) -> tuple[LinkRow, ...]:
        """Return the state of each link, for people."""
        now_s = read_clocks("cluster").wall_s
        return self._back_ends.rows() + tuple(_row(each, now_s) for each in self.mesh.states())

    def trouble(self) -> list[str]:
        """Return problems of links and misbehaviour of members, one sentence each."""
        offences = self.mesh.violations.rows(read_clocks("cluster").steady_s)
        noticed = self.incidents.rows() + self.proposals()
        return self._back_ends.trouble() + offences + noticed + self._clocks()

    def proposals(self) -> list[str]:
        """Return a proposal for each machine that operators may eject."""
        ejected = {each.ejection.machine for each in self._cluster.trust.ejections}
        return self.incidents.proposals(ejected)

    def _clocks(self) -> list[str]:
        """Return a sentence for each machine whose clock is off by more than `CLOCK_OFF_S`."""
        return [
            f"the clock of {each.machine} is {each.offset.offset_s:+.0f} s off this machine's"
            for each in self.mesh.states()
            if each.offset is not None and abs(each.offset.offset_s) > CLOCK_OFF_S
        ]

    def close(self) -> None:
        """End all links."""
        for alarm in (*self._alarms.values(), self._measuring):
            if alarm is not None:
                alarm.cancel()
        self._kept.close()
        self._uptime.close()
        self._output.close()
        self.copies.close()
        self.mesh.close()

    # --- what comes in ---------------------------------------------------------------------------

    def _happened(self, event: MachineEvent) -> None:
        if not isinstance(event, Delivered):
            self._engine.event(event)
        elif event.part is Part.INQUIRY:
            self._inquirer.handle(event)
        elif event.part is Part.OUTPUT:
            self._of_output(event)
        else:
            self._handle(event)

    def _handle(self, event: Delivered | Wake) -> None:
        now = read_clocks("cluster")
        self._perform(self.member.handle(event, now), now)

    def _of_output(self, event: Delivered) -> None:
        message = event.message
        if isinstance(message, AskOutput):
            self._output.asked(event.sender, message)
        elif isinstance(message, Output):
            self.copies.receive(event.sender, message)

    def _begun(self, begun: Begun) -> None:
        """Fetch the output of a task that began elsewhere, if a client follows it."""
        attempt, home = begun.attempt, self._engine.machine.home
        job = home.jobs.get(attempt.number)
        is_followed = job is not None and job.spec.interaction is Interaction.STREAM
        if is_followed and home.waits_for(attempt, begun.machine):
            self.copies.begin(attempt, begun.machine)

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
                    self.incidents.note(effect)
                case PeerBlocked(machine, reason, for_s):
                    self.mesh.block(machine, reason, for_s)
                case _:
                    pass
        for event in self.member.drain_events():
            if not isinstance(event, Delivered):
                self._engine.event(event)
                continue
            if isinstance(event.message, Begun):
                self._begun(event.message)
            self._engine.news(event)

    def _measure_links(self) -> None:
        """Measure the links' traffic, every `MEASURE_S`."""
        now_s = read_clocks("cluster").steady_s
        states = self.mesh.states()
        sent = sum(state.sent_bytes for state in states)
        received = sum(state.received_bytes for state in states)
        self.member.metrics.moved(sent, received, now_s)
        self._measuring = self._loop.call_later(MEASURE_S, self._measure_links)
        if self._addresses.current() != self.member.peers.publisher.member.addresses:
            self._announce()  # an interface came or went, or a join used another address

    def _set_alarm(self, part: Part, delay_s: float) -> None:
        alarm = self._alarms.pop(part, None)
        if alarm is not None:
            alarm.cancel()
        self._alarms[part] = self._loop.call_later(max(0.0, delay_s), self._handle, Wake(part))

    # --- what was counted ------------------------------------------------------------------------

    def _counters(self) -> tuple[LedgerRow, ...]:
        """Return the ledger rows of this machine's node."""
        machine = self._engine.machine
        return machine.node.ledger.rows() if Part.NODE in machine.parts else ()

    def _rate(self) -> float:
        """Return the largest charge of this machine's node (1/s)."""
        machine = self._engine.machine
        return machine.node.rate if Part.NODE in machine.parts else 0.0

    # --- who is there ----------------------------------------------------------------------------

    def _members_changed(self, members: tuple[Member, ...]) -> None:
        for member in members:
            if (member.name in self._online) != member.is_present:
                self._online ^= {member.name}
                log.info("%s is %s", member.name, member.state)
        self.book.update(members)
        self.mesh.members_changed(member.name for member in members if member.is_present)
        self._kept.changed()

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
        )
        return Mesh(
            passport,
            self.book,
            listener,
            payloads,
            rng,
            is_outward_only=section.outward_only,
            silence_s=section.silence_s,
            on_anonymous=self._engine.routes.tell,
        )

    def _own_member(self, instance: str) -> Member:
        settings, identity = self._settings, self._cluster.identity
        is_outward_only = settings.configuration.cluster.outward_only
        return Member(
            identity.name,
            0,
            MemberState.ALIVE,
            identity.cluster,
            self._addresses.current(),
            is_outward_only=is_outward_only,
            parts=tuple(settings.role.parts),
            steadiness=round(self._uptime.told, 3),
            instance=instance,
            cluster_name=settings.configuration.cluster.name or "",
        )


def _row(state: LinkState, now_wall_s: float) -> LinkRow:
    for_s = max(0.0, now_wall_s - state.since_wall_s)
    words = f"for {for_s:.0f} s: {state.problem}" if state.problem else f"up for {for_s:.0f} s"
    offset = state.offset
    return LinkRow(
        state.machine,
        state.is_up,
        words,
        "network" if state.is_direct else "relay",
        state.sent_bytes,
        state.received_bytes,
        offset.offset_s if offset else None,
        offset.error_s if offset else 0.0,
    )


def _seed_member(seed: SeedMember, cluster: str) -> Member:
    """Return the member for a stored seed, until the machine publishes more of itself."""
    return Member(
        seed.name,
        0,
        MemberState.ALIVE,
        cluster,
        seed.addresses,
        is_outward_only=seed.is_outward_only,
    )

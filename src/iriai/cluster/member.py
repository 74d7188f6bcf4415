"""A machine as a member of its cluster: what others publish, and what follows from it here.

Membership, directory, ledger and site view as one core. In: messages, alarms, and what this machine
publishes. Out: effects for the driver, and events for the machine's parts (`drain_events`), which
are not part of its turns: nothing that they say waits for a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from random import Random
from typing import NamedTuple

from iriai.cluster.incidents import IncidentLog
from iriai.cluster.locator import Locator
from iriai.cluster.metrics import ClusterMetrics
from iriai.config.sections import GossipSection
from iriai.links.address_book import relay_order
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay
from iriai.protocol.delivery.authorization import is_of_cluster
from iriai.protocol.directory.entry_slices import EntrySlices
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.validation import read_usage, usage_body
from iriai.protocol.election.site_view import SiteView
from iriai.protocol.ledger.ledger_sync import PUBLISH_S, LedgerSync
from iriai.protocol.membership.cluster_core import ClusterCore
from iriai.protocol.membership.membership import MembershipSettings
from iriai.protocol.messages.effects import (
    Delivered,
    DocumentReceived,
    Effect,
    EntriesChanged,
    MachineForgotten,
    MembersChanged,
    Part,
    PeersChanged,
    UsageForgotten,
    UsageLearned,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.entries import (
    BY_OPERATORS,
    Entry,
    EntryKey,
    EntryKind,
    Signer,
    Verifier,
)
from iriai.protocol.messages.gossip import Entries, Locate, Located
from iriai.protocol.messages.members import ClusterUsage, Member
from iriai.protocol.messages.scheduling import Forward, Match, Summary
from iriai.protocol.misbehaviour import Incidents

OF_CLUSTER = frozenset({Part.MEMBERSHIP, Part.DIRECTORY, Part.ENTRIES, Part.LEDGER})
"""The parts whose messages and alarms are for `ClusterMember` itself."""

ALONE_S, SETTLED_S = 5.0, 10.0
"""How long a machine is one of the first of its cluster before it tells other clusters so: while it
knows no other machine of its own, and otherwise. Whoever comes up is the first of those it knows.
"""

ForParts = PeersChanged | MachineForgotten | UsageLearned | UsageForgotten | Delivered
"""What the parts of this machine learn from its cluster."""


class SeenMember(NamedTuple):
    """A machine of the cluster in the state that this one assumes."""

    member: Member
    heard_s: float | None
    """Since something of it was last heard here; None: this machine itself."""


class ClusterMember:
    """Membership, directory, ledger and site view of one machine."""

    def __init__(
        self,
        own: Member,
        now: Instant,
        *,
        incarnation: int,
        signer: Signer,
        verifier: Verifier,
        rng: Random,
        decay: Decay,
        counters: Callable[[], tuple[LedgerRow, ...]] = tuple,
        rate: float = 1.0,
        seeds: Sequence[str] = (),
        membership: MembershipSettings | None = None,
        directory: GossipSection | None = None,
    ) -> None:
        """`own` is what this machine says of itself; `seeds` are those that it joined through.

        `counters` returns the ledger rows of its node, which can charge `rate` in a second.
        """
        self.peers = ClusterCore(
            own,
            incarnation=incarnation,
            signer=signer,
            verifier=verifier,
            rng=rng,
            seeds=seeds,
            membership=membership,
            directory=directory,
        )
        self.site = SiteView(own)
        self._incidents = Incidents()
        self._locator = Locator(own, verifier, self.peers.table.checks, self._incidents)
        self.ledger = LedgerSync(
            own.name, decay, counters(), now, rate=rate, cluster=own.cluster_called
        )
        self.metrics = ClusterMetrics(now.steady_s)
        self.incidents = IncidentLog()
        """Misbehaviour of other machines, for people."""
        self._counters = counters
        self._entries = EntrySlices()
        self._events: list[ForParts] = []
        self._candidate_since_s: float | None = None
        """Since when this machine is one of the first of its cluster; None: it is not."""

    @property
    def name(self) -> str:
        """The name of this machine."""
        return self.peers.name

    def present(self) -> list[Member]:
        """Return the other members that are online, and other clusters' gateways, by name."""
        there = (member for member in self._known() if member.is_present)
        return sorted(there, key=lambda member: member.name)

    def seen(self, last_contact_s: Callable[[str], float | None], now: Instant) -> list[SeenMember]:
        """Return all known members in any state, this machine first; also gateways, as above.

        `last_contact_s` returns when a machine sent anything over its link, on the steady clock.
        """
        found = [SeenMember(self.peers.publisher.member, None)]
        for member in self._known():
            keys = [EntryKey(member.name, kind) for kind in (EntryKind.MEMBER, EntryKind.GATEWAY)]
            carried = (self.peers.table.carried(key, now) for key in keys)
            ages_s = [each.age_s for each in carried if each is not None]
            if (linked_s := last_contact_s(member.name)) is not None:
                ages_s.append(now.steady_s - linked_s)
            found.append(SeenMember(member, min(ages_s, default=None)))
        return found

    def drain_events(self) -> list[ForParts]:
        """Return what the parts of this machine are to handle, since the last call."""
        events, self._events = self._events, []
        if self.site.has_news:
            events.append(self.site.report())
        return events

    # --- what the driver says --------------------------------------------------------------------

    def begin(self, now: Instant) -> list[Effect]:
        """Announce this machine, and publish its counters from now on."""
        return [*self._apply(self.peers.begin(now), now), WakeAt(Part.LEDGER, now.steady_s)]

    def adopt(self, table: EntryTable, now: Instant) -> list[Effect]:
        """Copy the members of another table, and the rest as long known: see `EntryTable.adopt`.

        So this machine has been there for a while.
        """
        self._candidate_since_s = -inf
        effects = self.peers.adopt(table, now)
        return self._apply((each for each in effects if not isinstance(each, EntriesChanged)), now)

    def publish(self, kind: EntryKind, body: bytes, now: Instant) -> list[Effect]:
        """Publish a body of a kind, now or when its pace allows."""
        return self._apply(self.peers.publish(kind, body, now), now)

    def announce(self, own: Member, now: Instant) -> list[Effect]:
        """Publish what this machine says of itself anew, for instance its addresses."""
        self.site.update((own,))
        return self._apply(self.peers.announce(own, now), now)

    def submit(self, document: Entry, now: Instant) -> list[Effect]:
        """Publish a document that an operator signed."""
        return self._apply(self.peers.submit(document, now), now)

    def leave(self, now: Instant) -> list[Effect]:
        """Announce that this machine leaves. It must be driven for a few seconds more."""
        return self._apply(self.peers.leave(now), now)

    def handle(self, event: Delivered | Wake, now: Instant) -> list[Effect]:
        """Handle a message of another machine, which may send it, or an alarm."""
        if isinstance(event, Delivered) and isinstance(event.message, Entries):
            return self._queue(event.sender, event.message, now)
        if event.part is Part.ENTRIES:
            return self._receive_entries(now)
        if event.part is Part.LEDGER:
            return self._publish_counters(now)
        if isinstance(event, Delivered) and isinstance(event.message, (Locate, Located)):
            return self._receive_location(event.sender, event.message, now)
        if isinstance(event, Wake) or event.part in OF_CLUSTER:
            return self._apply(self.peers.handle(event, now), now)
        if self._speaks_for_its_cluster(event):
            self._note_who_knows(event)
            self._events.append(event)
        return list(self._incidents.drain())

    def locate(self, machine: str, now: Instant, *, is_everywhere: bool = False) -> list[Effect]:
        """Ask other clusters where a machine is that is none of this one's."""
        if machine in self.peers.members:
            return []
        gateways = self.peers.gateways
        return self._locator.locate(machine, gateways, now, is_everywhere=is_everywhere)

    def linked(self, machine: str, now: Instant) -> list[Effect]:
        """Tell a machine of another cluster, with which there is a new link, where this one is."""
        if machine in self.peers.members or not self.peers.gateways.clusters:
            return []
        return self._locator.answer(machine, self.name, (), self.peers.table, now)

    # --- within ----------------------------------------------------------------------------------

    def _queue(self, sender: str, message: Entries, now: Instant) -> list[Effect]:
        """Queue received entries: each has a signature to check, and other work goes on."""
        is_planned = bool(self._entries)
        self._entries.add(sender, message.entries)
        return [WakeAt(Part.ENTRIES, now.steady_s)] if self._entries and not is_planned else []

    def _receive_entries(self, now: Instant) -> list[Effect]:
        """Handle some received entries; others follow after other events."""
        sender, entries = self._entries.pop()
        delivered = Delivered(sender, Part.DIRECTORY, Entries(entries))
        effects = self._apply(self.peers.handle(delivered, now), now)
        if self._entries:
            effects.append(WakeAt(Part.ENTRIES, now.steady_s))
        return effects

    def _publish_counters(self, now: Instant) -> list[Effect]:
        """Publish the node's counters every `PUBLISH_S` if they changed; brokers draw with them."""
        effects = self._review_gateway(now)
        is_settled = self._candidate_since_s is None or self.peers.directory.is_gateway
        again_s = PUBLISH_S if is_settled else ALONE_S
        effects.append(WakeAt(Part.LEDGER, now.steady_s + again_s))
        body = self.ledger.body(self._counters(), now, len(self.peers.members) + 1)
        if body is not None:
            effects += self.publish(EntryKind.LEDGER, body, now)
        return effects + self._publish_sums(now)

    def _publish_sums(self, now: Instant) -> list[Effect]:
        """Publish what the whole cluster has counted, as its first gateway."""
        clusters = self.peers.gateways.clusters
        if not clusters or self.site.candidates()[:1] != (self.name,):
            return []
        batch = self.ledger.sums(self._counters(), now, len(clusters) + 1)
        if batch is None:
            return []
        own, certificate = self.peers.publisher.member, self.peers.publisher.certificate
        usage = ClusterUsage(own.cluster_called, certificate, batch)
        return self.publish(EntryKind.USAGE, usage_body(usage), now)

    def _speaks_for_its_cluster(self, event: Delivered) -> bool:
        """Return whether the sender of a cluster's message is a member of that cluster.

        Messages of unknown machines are dropped; they are sent again.
        """
        if not isinstance(event.message, Summary | Forward):
            return True
        member = self._member(event.sender)
        if member is None or not member.is_present:
            return False
        if is_of_cluster(member.cluster_called, event.message):
            return True
        words = f"it is of {member.cluster_called}, but sent a message for {event.message.cluster}"
        self._incidents.note("not-its-own", event.sender, words)
        return False

    def _is_counted(self, member: Member) -> bool:
        """Return whether a machine counts for who is broker: of the own cluster, or a gateway."""
        return self.peers.is_known(member) or not self.peers.is_near(member)

    def _review_gateway(self, now: Instant) -> list[Effect]:
        """Publish this machine to other clusters while it is one of the first of its own.

        That is looked at with every change of members, and with the alarm.
        """
        directory = self.peers.directory
        has_others = bool(self.peers.publisher.member.cluster_name or directory.others)
        if not (has_others and self.name in self.site.candidates()):
            self._candidate_since_s = None
            directory.is_gateway = False
            self.peers.publisher.withdraw(EntryKind.GATEWAY)
            return []
        if self._candidate_since_s is None:
            self._candidate_since_s = now.steady_s
        waits_s = SETTLED_S if self.peers.members else ALONE_S
        if directory.is_gateway or now.steady_s - self._candidate_since_s < waits_s:
            return []
        directory.is_gateway = True
        return self.publish(EntryKind.GATEWAY, b"", now)

    def _known(self) -> list[Member]:
        """Return the other machines of this cluster, and the gateways of the others."""
        own = self.peers.members
        others = self.peers.gateways.others
        return [*own.values(), *(each for name, each in others.items() if name not in own)]

    def _member(self, machine: str) -> Member | None:
        """Return a machine of the site, as far as this one has to do with it."""
        return (
            self.peers.membership.member(machine)
            or self.peers.gateways.others.get(machine)
            or self._locator.contact(machine)
        )

    def _note_who_knows(self, event: Delivered) -> None:
        """Note of which machine another cluster's broker speaks: it knows where that one is."""
        message = event.message
        if isinstance(message, Forward):
            self._locator.hint(message.want.job.home, event.sender)
        elif isinstance(message, Match) and event.sender not in self.peers.members:
            for seat in message.seats:
                self._locator.hint(seat.machine, event.sender)

    def _receive_location(
        self, sender: str, message: Locate | Located, now: Instant
    ) -> list[Effect]:
        """Tell where a machine of this cluster is, or take where one of another cluster is."""
        if not self.peers.directory.takes(sender, now):
            return list(self.peers.incidents.drain())
        if isinstance(message, Locate):
            relays: list[str] = []
            member = self.peers.membership.member(message.machine)
            if member is not None and member.is_outward_only:
                present = (each for each in self.peers.members.values() if each.is_present)
                reachable = [each.name for each in present if not each.is_outward_only]
                relays = relay_order(message.machine, reachable)
            return self._locator.answer(sender, message.machine, relays, self.peers.table, now)
        found = self._locator.located(sender, message, now)
        self._events += [MachineForgotten(each.name) for each in found if not each.is_present]
        effects: list[Effect] = [MembersChanged(tuple(found))] if found else []
        return [*effects, *self._incidents.drain()]

    def _apply(self, effects: Iterable[Effect], now: Instant) -> list[Effect]:
        """Apply what membership and directory learned; return what is for the driver."""
        outward: list[Effect] = []
        is_other = False
        """Whether others are there than before."""
        for effect in effects:
            if isinstance(effect, EntriesChanged):
                outward += self._entries_changed(effect.entries, now)
                self._entries_gone(effect.gone)
                continue
            if isinstance(effect, MembersChanged):
                self.site.update(filter(self._is_counted, effect.members))
                is_other = True
            outward.append(effect)
        return outward + self._review_gateway(now) if is_other else outward

    def _entries_changed(self, entries: Sequence[Entry], now: Instant) -> list[Effect]:
        carried = self.peers.aged(entries, now)
        ages_s = (each.age_s for each in carried if each.entry.machine != self.name)
        self.metrics.learned(ages_s, now.steady_s)
        self._events += self.ledger.learned(carried, now)
        for entry, age_s in ((each.entry, each.age_s) for each in carried):
            if entry.kind is EntryKind.USAGE:
                usage = read_usage(entry)
                self._events += self.ledger.usage_learned(usage, entry.machine, age_s, now)
        documents = (DocumentReceived(each) for each in entries if each.kind in BY_OPERATORS)
        return [*self.ledger.drain_incidents(), *documents]

    def _entries_gone(self, keys: Iterable[EntryKey]) -> None:
        """Forget machines and their counters whose entries the directory deleted."""
        for key in keys:
            if key.kind is EntryKind.MEMBER:
                self._events.append(MachineForgotten(key.machine))
            elif key.kind is EntryKind.LEDGER:
                self._events += self.ledger.forgotten(key.machine)
            elif key.kind is EntryKind.USAGE:
                self._events += self.ledger.usage_gone(key.machine)

"""A machine as a member of its cluster: what others publish, and what follows from it here.

Membership, directory, ledger and site view as one core. In: messages, alarms, and what this machine
publishes. Out: effects for the driver, and events for the machine's parts (`drain_events`), which
are not part of its turns: nothing that they say waits for a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

from iriai.cluster.incidents import IncidentLog
from iriai.cluster.metrics import ClusterMetrics
from iriai.config.sections import GossipSection
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay
from iriai.protocol.delivery.authorization import is_of_cluster
from iriai.protocol.directory.entry_slices import EntrySlices
from iriai.protocol.directory.entry_table import EntryTable
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
from iriai.protocol.messages.gossip import Entries
from iriai.protocol.messages.members import Member
from iriai.protocol.messages.scheduling import Forward, Summary
from iriai.protocol.misbehaviour import Incidents

OF_CLUSTER = frozenset({Part.MEMBERSHIP, Part.DIRECTORY, Part.ENTRIES, Part.LEDGER})
"""The parts whose messages and alarms are for `ClusterMember` itself."""

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
        self.ledger = LedgerSync(own.name, decay, counters(), now, rate=rate)
        self.metrics = ClusterMetrics(now.steady_s)
        self.incidents = IncidentLog()
        """Misbehaviour of other machines, for people."""
        self._counters = counters
        self._entries = EntrySlices()
        self._incidents = Incidents()
        self._events: list[ForParts] = []

    @property
    def name(self) -> str:
        """The name of this machine."""
        return self.peers.name

    def present(self) -> list[Member]:
        """Return the other members that are online, sorted by name."""
        there = (member for member in self.peers.members.values() if member.is_present)
        return sorted(there, key=lambda member: member.name)

    def seen(self, last_contact_s: Callable[[str], float | None], now: Instant) -> list[SeenMember]:
        """Return all known members in any state, this machine first.

        `last_contact_s` returns when a machine sent anything over its link, on the steady clock.
        """
        found = [SeenMember(self.peers.publisher.member, None)]
        for member in self.peers.members.values():
            carried = self.peers.table.carried(EntryKey(member.name, EntryKind.MEMBER), now)
            ages_s = [carried.age_s] if carried else []
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
        """Copy the members of another table, and the rest as long known: see `EntryTable.adopt`."""
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
        if isinstance(event, Wake) or event.part in OF_CLUSTER:
            return self._apply(self.peers.handle(event, now), now)
        if self._speaks_for_its_cluster(event):
            self._events.append(event)
        return list(self._incidents.drain())

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
        effects: list[Effect] = [WakeAt(Part.LEDGER, now.steady_s + PUBLISH_S)]
        body = self.ledger.body(self._counters(), now, len(self.peers.members) + 1)
        if body is not None:
            effects += self.publish(EntryKind.LEDGER, body, now)
        return effects

    def _speaks_for_its_cluster(self, event: Delivered) -> bool:
        """Return whether the sender of a cluster's message is a member of that cluster.

        Messages of unknown machines are dropped; they are sent again.
        """
        if not isinstance(event.message, Summary | Forward):
            return True
        member = self.peers.members.get(event.sender)
        if member is None or not member.is_present:
            return False
        if is_of_cluster(member.cluster_called, event.message):
            return True
        words = f"it is of {member.cluster_called}, but sent a message for {event.message.cluster}"
        self._incidents.note("not-its-own", event.sender, words)
        return False

    def _apply(self, effects: Iterable[Effect], now: Instant) -> list[Effect]:
        """Apply what membership and directory learned; return what is for the driver."""
        outward: list[Effect] = []
        for effect in effects:
            if isinstance(effect, EntriesChanged):
                outward += self._entries_changed(effect.entries, now)
                self._entries_gone(effect.gone)
                continue
            if isinstance(effect, MembersChanged):
                self.site.update(effect.members)
            outward.append(effect)
        return outward

    def _entries_changed(self, entries: Sequence[Entry], now: Instant) -> list[Effect]:
        carried = self.peers.aged(entries, now)
        ages_s = (each.age_s for each in carried if each.entry.machine != self.name)
        self.metrics.learned(ages_s, now.steady_s)
        self._events += self.ledger.learned(carried, now)
        documents = (DocumentReceived(each) for each in entries if each.kind in BY_OPERATORS)
        return [*self.ledger.drain_incidents(), *documents]

    def _entries_gone(self, keys: Iterable[EntryKey]) -> None:
        """Forget machines and their counters whose entries the directory deleted."""
        for key in keys:
            if key.kind is EntryKind.MEMBER:
                self._events.append(MachineForgotten(key.machine))
            elif key.kind is EntryKind.LEDGER:
                self._events += self.ledger.forgotten(key.machine)

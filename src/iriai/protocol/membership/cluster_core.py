"""Membership and directory of one machine as one object for `machine.core`.

Both work on one table: what either learns, the other knows. The driver hands in what is
delivered to the two parts and their alarms, and performs the effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from iriai.config.sections import GossipSection
from iriai.model.instant import Instant
from iriai.protocol.directory.directory import Directory
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.publisher import Publisher
from iriai.protocol.membership.doubts import Doubts
from iriai.protocol.membership.gateways import Gateways
from iriai.protocol.membership.membership import Membership, MembershipSettings
from iriai.protocol.messages.effects import (
    Delivered,
    Effect,
    EntriesChanged,
    MembersChanged,
    Part,
    Wake,
)
from iriai.protocol.messages.entries import Carried, Entry, EntryKey, EntryKind, Signer, Verifier
from iriai.protocol.messages.gossip import ToDirectory, ToMembership
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.misbehaviour import Incidents

OF_PEERS = frozenset({Part.MEMBERSHIP, Part.DIRECTORY})
"""The parts whose messages and alarms `ClusterCore` takes."""
LOST_MAX = 64
"""Machines that were forgotten and are looked for; one of the other half of a parted network is
enough, and the last to go are the likeliest to be there."""


NEWS_S = 60.0
"""The age up to which an entry is news of the membership: probes bring it to all within seconds. A
newcomer learns hundreds of older ones at once, which the others have; it told them for minutes."""


class ClusterCore:
    """Membership and directory of one machine."""

    def __init__(
        self,
        member: Member,
        *,
        incarnation: int,
        signer: Signer,
        verifier: Verifier,
        rng: Random,
        seeds: Sequence[str] = (),
        membership: MembershipSettings | None = None,
        directory: GossipSection | None = None,
    ) -> None:
        """`member` is what this machine says of itself.

        `incarnation` is to be higher than in its last life (the wall clock's seconds will do);
        `seeds` are the machines that it joined through.
        """
        self.incidents = Incidents()
        self._partners: dict[str, None] = {}
        self._lost: dict[str, None] = {}
        self.gateways = Gateways(member)
        self.table = EntryTable(
            member.name, member.cluster, verifier, self.incidents, cluster=member.cluster_called
        )
        self.publisher = Publisher(
            member, signer, self.table, self.incidents, incarnation=incarnation
        )
        self.membership = Membership(
            self.publisher,
            self.table,
            Doubts(member.name, signer, verifier, self.incidents, self.table.checks),
            self.incidents,
            rng,
            membership or MembershipSettings(),
        )
        self.directory = Directory(
            self.publisher,
            self.table,
            self.incidents,
            rng,
            directory or GossipSection(),
            [seed for seed in seeds if seed != member.name],
        )

    @property
    def name(self) -> str:
        """The name of this machine."""
        return self.publisher.name

    @property
    def members(self) -> Mapping[str, Member]:
        """The other machines of the cluster with the states that this one assigns to them."""
        return self.membership.members

    def is_near(self, member: Member) -> bool:
        """Return whether a machine is of the same cluster."""
        return member.cluster_called == self.publisher.member.cluster_called

    def is_known(self, member: Member) -> bool:
        """Return whether membership tells of a machine, or told of it: not of a gateway alone."""
        is_there = not member.is_present or self.membership.member(member.name) is not None
        return self.is_near(member) and is_there

    def aged(self, entries: Iterable[Entry], now: Instant) -> list[Carried]:
        """Return entries with their age; 0 for those that are not held here."""
        held = ((each, self.table.carried(each.key, now)) for each in entries)
        return [Carried(each, known.age_s if known else 0.0) for each, known in held]

    # --- what the driver says --------------------------------------------------------------------

    def begin(self, now: Instant, kept: Iterable[Carried] = ()) -> list[Effect]:
        """Start with the stored entries, and announce this machine."""
        self.table.merge_all(kept, "", now)
        effects = self._old_news(now)
        self.publisher.announce(self.publisher.member, now)
        effects = self._with_table_changes("", now, effects)
        effects += self.membership.handle("", None, now)
        self.directory.handle("", None, now)
        return self._with_table_changes("", now, effects)

    def adopt(self, table: EntryTable, now: Instant) -> list[Effect]:
        """Copy the entries of another table; see `EntryTable.adopt`."""
        self.table.adopt(table)
        return self._with_table_changes("", now, self._old_news(now))

    def handle(self, event: Delivered | Wake, now: Instant) -> list[Effect]:
        """Handle a message to membership or directory, or the alarm of one of them."""
        sender = event.sender if isinstance(event, Delivered) else ""
        message = event.message if isinstance(event, Delivered) else None
        effects: list[Effect] = []
        if event.part is not Part.MEMBERSHIP:
            said = message if isinstance(message, ToDirectory) else None
            self.directory.handle(sender, said, now)
            return self._with_table_changes(sender, now, effects)
        told = message if isinstance(message, ToMembership) else None
        if told is not None and told.news.members:
            for carried in told.news.members:
                self.table.merge(carried, sender, now)
            effects = self._with_table_changes(sender, now)
        effects += self.membership.handle(sender, told, now)
        self.directory.ride(self.membership.drain_probed(), now)
        return self._with_table_changes(sender, now, effects)

    def publish(self, kind: EntryKind, body: bytes, now: Instant) -> list[Effect]:
        """Publish a body of a kind, now or when its pace allows."""
        self.publisher.publish(kind, body, now)
        return self._with_table_changes("", now)

    def announce(self, member: Member, now: Instant) -> list[Effect]:
        """Publish a new state of this machine, for instance its addresses."""
        self.publisher.announce(member, now)
        return self._with_table_changes("", now)

    def submit(self, document: Entry, now: Instant) -> list[Effect]:
        """Publish a document that an operator signed."""
        self.table.merge(Carried(document, 0.0), self.name, now)
        return self._with_table_changes("", now)

    def leave(self, now: Instant) -> list[Effect]:
        """Announce that this machine leaves. It must be driven for a few seconds more."""
        self.publisher.leave(now)
        return self._with_table_changes("", now)

    def snapshot(self, now: Instant) -> list[Carried]:
        """Return all entries with their age, for the disk."""
        carried = (self.table.carried(entry.key, now) for entry in self.table)
        return [each for each in carried if each is not None]

    def check(self) -> None:
        """Raise where an invariant is broken."""
        self.membership.check()
        present = {name for name, member in self.members.items() if member.is_present}
        assert set(self.directory.partners) <= present

    # --- within ----------------------------------------------------------------------------------

    def _old_news(self, now: Instant) -> list[Effect]:
        """Apply entries from before the start, which the other machines have as well."""
        came, gone = self.table.drain_changes()
        if not (came or gone):
            return []
        members = [entry for entry in came if entry.kind is EntryKind.MEMBER]
        effects = self.membership.entries_changed(members, now, is_old=True)
        effects += self._follow_gateways(came, gone)
        return [*effects, EntriesChanged(tuple(came), tuple(gone))]

    def _with_table_changes(
        self, sender: str, now: Instant, effects: list[Effect] | None = None
    ) -> list[Effect]:
        """Apply changes of the table to both parts; return `effects` and those that follow."""
        effects = effects or []
        for entry in self.table.drain_echoes():
            self.publisher.echo(entry, now)
            effects.append(EntriesChanged((entry,)))
        while True:
            came, gone = self.table.drain_changes()
            if not (came or gone):
                break
            carried = self.aged((each for each in came if each.kind is EntryKind.MEMBER), now)
            fresh = [each.entry for each in carried if each.age_s <= NEWS_S]
            effects += self.membership.entries_changed(fresh, now)
            if len(fresh) < len(carried):
                old = [each.entry for each in carried if each.age_s > NEWS_S]
                effects += self.membership.entries_changed(old, now, is_old=True)
            self._lose(_members_of(gone))
            effects += self.membership.forgotten(_members_of(gone), now)
            effects += self._follow_gateways(came, gone)
            self.directory.changed(came, gone, sender, now)
            effects.append(EntriesChanged(tuple(came), tuple(gone)))
        effects += self.directory.end_turn(now)
        effects += self.incidents.drain()
        effects += self.table.checks.drain_blocked()
        self._follow_members(effects)
        return effects

    def _follow_gateways(self, came: list[Entry], gone: list[EntryKey]) -> list[Effect]:
        """Apply changes of gateways; they are told like members, though nobody probes them.

        One of the own cluster is told while membership does not know it, so that it can be dialled.
        """
        known = self.membership.member
        changed = [
            each
            for each in self.gateways.changed(came, gone)
            if not self.is_near(each) or known(each.name) is None
        ]
        self.directory.near = tuple(self.gateways.near)
        if not changed:
            return []
        self.directory.others = tuple(
            name for name, each in self.gateways.others.items() if not each.is_outward_only
        )
        self.directory.lost_others = tuple(self.gateways.lost)
        return [MembersChanged(tuple(changed))]

    def _lose(self, machines: Iterable[str]) -> None:
        """Remember forgotten machines that did not leave, to search for them."""
        for name in machines:
            member = self.membership.member(name)
            if member is None or member.is_outward_only:
                continue
            if member.state is not MemberState.LEFT:
                self._lost[name] = None
        for name in list(self._lost)[:-LOST_MAX]:
            del self._lost[name]
        self.directory.lost = tuple(self._lost)

    def _follow_members(self, effects: Iterable[Effect]) -> None:
        before = len(self._partners)
        has_lost = False
        for effect in effects:
            if isinstance(effect, MembersChanged):
                for member in effect.members:
                    if not self.is_known(member):
                        continue
                    if member.is_present and member.name in self._lost:
                        del self._lost[member.name]
                        self.directory.lost = tuple(self._lost)
                    if member.is_present and not member.is_outward_only:
                        self._partners[member.name] = None
                    else:
                        has_lost |= member.name in self._partners
                        self._partners.pop(member.name, None)
        if has_lost or len(self._partners) != before:
            self.directory.partners = tuple(self._partners)


def _members_of(keys: Iterable[EntryKey]) -> list[str]:
    return [key.machine for key in keys if key.kind is EntryKind.MEMBER]

"""The gateways of a site: the machines through which its clusters know each other (spec 006).

Membership is within one cluster. Of another a machine knows the first of its rank, which publish
themselves to all: `EntryKind.GATEWAY`. In: entries of that kind. Out: whom to exchange site-wide
entries with, and `MembersChanged` of other clusters' gateways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from iriai.protocol.directory.validation import read_gateway
from iriai.protocol.messages.entries import Entry, EntryKey, EntryKind
from iriai.protocol.messages.members import Member, MemberState

LOST_MAX = 64
"""Gateways whose entries expired and that are looked for: parted halves of a site meet by one."""


class Gateways:
    """The gateways of all clusters of a site, as far as known here."""

    def __init__(self, own: Member) -> None:
        self._own = own.name
        self._cluster = own.cluster_called
        self._near: dict[str, None] = {}
        """Those of the own cluster."""
        self._others: dict[str, Member] = {}
        self._lost: dict[str, None] = {}

    @property
    def others(self) -> Mapping[str, Member]:
        """Those of other clusters, by name."""
        return self._others

    @property
    def near(self) -> list[str]:
        """The other gateways of the own cluster."""
        return list(self._near)

    @property
    def lost(self) -> list[str]:
        """Gateways of other clusters that expired and have not come back."""
        return list(self._lost)

    def of(self, cluster: str) -> list[str]:
        """Return the gateways of a cluster."""
        return [name for name, each in self._others.items() if each.cluster_called == cluster]

    @property
    def clusters(self) -> list[str]:
        """The other clusters, by name."""
        return list(dict.fromkeys(each.cluster_called for each in self._others.values()))

    def changed(self, came: Iterable[Entry], gone: Iterable[EntryKey]) -> list[Member]:
        """Apply changes of the table; return the gateways that came, changed or are gone.

        Those of the own cluster, which membership tells of, are returned when they come.
        """
        changed: list[Member] = []
        for entry in came:
            if entry.kind is EntryKind.GATEWAY and entry.machine != self._own:
                changed += self._take(read_gateway(entry).member)
        for key in gone:
            if key.kind is EntryKind.GATEWAY:
                changed += self._forget(key.machine)
        return changed

    def _take(self, member: Member) -> list[Member]:
        if not member.is_present:
            return self._forget(member.name, MemberState.LEFT)
        self._lost.pop(member.name, None)
        if member.cluster_called == self._cluster:
            self._others.pop(member.name, None)
            self._near[member.name] = None
            return [member]
        self._near.pop(member.name, None)
        if self._others.get(member.name) == member:
            return []
        self._others[member.name] = member
        return [member]

    def _forget(self, name: str, state: MemberState = MemberState.DEAD) -> list[Member]:
        self._near.pop(name, None)
        member = self._others.pop(name, None)
        if member is None:
            return []
        if state is MemberState.DEAD:
            self._lost[name] = None
            for oldest in list(self._lost)[:-LOST_MAX]:
                del self._lost[oldest]
        return [msgspec.structs.replace(member, state=state)]

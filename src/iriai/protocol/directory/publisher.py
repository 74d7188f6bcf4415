"""Publishes entries of this machine: stamps, signatures, refreshing.

Input: bodies to publish, doubts to refute, entries of its own name that come back from others.
Output: entries in the table. Caveat: nothing is published sooner than the pace of its kind allows;
`due` publishes it then (spec 006, sections 1 and 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import msgspec

from iriai.model.instant import Instant
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.validation import gateway_body, member_body, read_member
from iriai.protocol.messages.entries import (
    SITE_WIDE,
    Entry,
    EntryKey,
    EntryKind,
    Signer,
    signed_content,
)
from iriai.protocol.messages.members import Gateway, Member, MemberState
from iriai.protocol.misbehaviour import Incidents

_DAY_S = 86_400.0
MEMBER_LIFETIME_S = 6 * 3600.0
"""So each publishes itself again after three hours. Each time costs every machine some 1.5 kB:
after ten minutes, in a cluster of 500, that alone were more than a kilobyte a second."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The interval at which a kind is published."""

    lifetime_s: float
    least_s: float
    """The least interval between two changes."""


PACES: Mapping[EntryKind, Pace] = {
    EntryKind.MEMBER: Pace(MEMBER_LIFETIME_S, 0.0),
    EntryKind.CERTIFICATE: Pace(60 * _DAY_S, 0.0),
    EntryKind.AD: Pace(1800.0, 5.0),
    EntryKind.LEDGER: Pace(60 * _DAY_S, 30.0),
    EntryKind.GATEWAY: Pace(3600.0, 5.0),
    EntryKind.USAGE: Pace(60 * _DAY_S, 30.0),
}
"""A machine that is gone is forgotten after three to six hours; what it counted, when it hardly
counts any more (60 days are some eight half-lives). Certificates are needed for as long."""
REFRESH = 1 / 2
"""The part of the lifetime after which it is published again, unchanged. What is left is for it to
reach all, and for its machine to come back in if it is away just then."""
TWIN_PAUSE_S = 30.0
"""Between two answers to another machine of our name: each raises its incarnation over the
other's."""


class _Own:
    __slots__ = ("body", "is_due", "published_s")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.published_s = -inf
        self.is_due = True


class Publisher:
    """Publishes the entries of this machine."""

    def __init__(
        self,
        member: Member,
        signer: Signer,
        table: EntryTable,
        notices: Incidents,
        *,
        incarnation: int,
    ) -> None:
        self.member = member
        self.incarnation = incarnation
        self._version = 0
        self._signer = signer
        self._table = table
        self._incidents = notices
        self._own: dict[EntryKind, _Own] = {}
        self._next_s: float | None = None
        """The cached `next_s`; None if it must be computed again."""
        self._was_echoed = False
        """Whether another instance's entry of this name was answered since the start."""
        self._quiet_until_s = -inf

    @property
    def name(self) -> str:
        """The name of this machine."""
        return self.member.name

    @property
    def certificate(self) -> bytes:
        """The certificate that this machine has published; empty: none."""
        own = self._own.get(EntryKind.CERTIFICATE)
        return own.body if own is not None else b""

    def publish(self, kind: EntryKind, body: bytes, now: Instant) -> None:
        """Publish a body at once or when its pace allows; do nothing if it is unchanged."""
        own = self._own.get(kind)
        self._next_s = None
        if own is None:
            own = self._own[kind] = _Own(body)
        elif own.body != body:
            own.body = body
            own.is_due = True
        self._publish_if_due(kind, own, now)
        gateway = self._own.get(EntryKind.GATEWAY)
        if gateway is not None and kind is EntryKind.CERTIFICATE:  # which is in it
            gateway.is_due = True
            self._publish_if_due(EntryKind.GATEWAY, gateway, now)

    def announce(self, member: Member, now: Instant) -> None:
        """Publish `member`, the state of this machine."""
        self.member = member
        self.publish(EntryKind.MEMBER, b"", now)  # the body follows from the member and the stamp
        for kind in (EntryKind.MEMBER, EntryKind.GATEWAY):
            if kind in self._own:
                self._publish(kind, now)

    def withdraw(self, kind: EntryKind) -> None:
        """Do not publish a kind again; the last entry of it expires."""
        if self._own.pop(kind, None) is not None:
            self._next_s = None

    def departure(self, cluster_name: str) -> Entry:
        """Return an entry that says that this machine is not of that cluster, any more."""
        left = msgspec.structs.replace(
            self.member,
            state=MemberState.LEFT,
            cluster_name=cluster_name,
            incarnation=self.incarnation,
        )
        return self._signed(EntryKind.MEMBER, left.cluster_called, member_body(left))

    def refute(self, now: Instant) -> None:
        """Someone doubts this incarnation of us: we are here.

        What others say raises it by one and no more.
        """
        self.incarnation += 1
        self._publish(EntryKind.MEMBER, now)

    def echo(self, entry: Entry, now: Instant) -> None:
        """Answer an entry of this machine's name that is later than its own one (spec 006)."""
        if entry.incarnation < self.incarnation:
            if entry.kind in self._own:
                self._publish(entry.kind, now)
            return
        if self._is_of_another(entry):
            if self._was_echoed:
                words = "another machine publishes under our name: a copy of our state directory, "
                words += "or a second machine of the same name"
                self._incidents.note("two-machines-one-name", self.name, words)
                if now.steady_s < self._quiet_until_s:
                    return
                self._quiet_until_s = now.steady_s + TWIN_PAUSE_S
            self._was_echoed = True
        self.incarnation = entry.incarnation + 1
        for kind in self._own:
            self._publish(kind, now)

    def due(self, now: Instant) -> None:
        """Publish delayed changes, and refresh old entries."""
        if self.next_s > now.steady_s:
            return
        for kind, own in self._own.items():
            self._publish_if_due(kind, own, now)

    @property
    def next_s(self) -> float:
        """When `due` must be called next."""
        if self._next_s is None:
            due_s = (self._due_s(kind, own) for kind, own in self._own.items())
            self._next_s = min(due_s, default=inf)
        return self._next_s

    def _due_s(self, kind: EntryKind, own: _Own) -> float:
        pace = PACES[kind]
        return own.published_s + (pace.least_s if own.is_due else pace.lifetime_s * REFRESH)

    def _publish_if_due(self, kind: EntryKind, own: _Own, now: Instant) -> None:
        if self._due_s(kind, own) <= now.steady_s:
            self._publish(kind, now)

    def _publish(self, kind: EntryKind, now: Instant) -> None:
        own = self._own[kind]
        self._next_s = None
        own.is_due = False
        own.published_s = now.steady_s
        held = self._table.get(EntryKey(self.name, kind))
        last = (self.incarnation, self._version)
        if held is not None and (held.incarnation, held.version) > last:
            self.incarnation = held.incarnation + 1  # of an earlier life, and later than this one
        if kind is EntryKind.MEMBER:
            self.member = msgspec.structs.replace(self.member, incarnation=self.incarnation)
            own.body = member_body(self.member)
        elif kind is EntryKind.GATEWAY:
            member = msgspec.structs.replace(self.member, incarnation=self.incarnation)
            own.body = gateway_body(Gateway(member, self.certificate))
        concerned = self.member.cluster if kind in SITE_WIDE else self.member.cluster_called
        self._table.put(self._signed(kind, concerned, own.body), now)

    def _signed(self, kind: EntryKind, concerned: str, body: bytes) -> Entry:
        """Return an entry with the next version; `concerned` is the cluster that it is for."""
        self._version += 1
        draft = Entry(
            self.name,
            kind,
            concerned,
            self.incarnation,
            self._version,
            PACES[kind].lifetime_s,
            body,
            b"",
        )
        signature = self._signer.sign(signed_content(draft))
        return msgspec.structs.replace(draft, signature=signature)

    def _is_of_another(self, entry: Entry) -> bool:
        if entry.kind is not EntryKind.MEMBER:
            return False
        return read_member(entry).instance != self.member.instance

    def leave(self, now: Instant) -> None:
        """Publish that this machine leaves; other machines then drop its other entries."""
        left = msgspec.structs.replace(self.member, state=MemberState.LEFT)
        kept = (EntryKind.MEMBER, EntryKind.CERTIFICATE, EntryKind.LEDGER, EntryKind.GATEWAY)
        self._own = {kind: own for kind, own in self._own.items() if kind in kept}
        self._next_s = None
        self.announce(left, now)

"""Entries of the directory: what machines publish of themselves, signed by them (spec 006)."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import astuple

from iriai.model.bounds import Count, Document, KeyBytes, Name, Span

CLUSTER = ""
"""The owner of documents about no machine: configuration, roster, trust in all other homes."""


class EntryKind(StrEnum):
    """The subject of an entry."""

    MEMBER = "member"
    """The state of the machine, a `members.Member`."""
    CERTIFICATE = "certificate"
    """The machine's certificate, which verifies its signatures; the authority signed it."""
    AD = "ad"
    """The machine's ClassAd."""
    LEDGER = "ledger"
    """The machine's counters for each account, a `ledger.LedgerBatch`."""
    CONFIGURATION = "configuration"
    """The cluster's configuration, signed by an operator."""
    ROSTER = "roster"
    """The roster of operators and named members, signed by the authority."""
    EJECT = "eject"
    """The ejection of the machine, signed by an operator."""
    TRUST = "trust"
    """The users for whom the machine's home speaks on others, signed by an operator."""
    GATEWAY = "gateway"
    """The machine for other clusters of the site, as one of the first of its own: a
    `members.Gateway`."""
    USAGE = "usage"
    """The usage of its whole cluster, for other clusters: a `members.ClusterUsage`."""


BY_OPERATORS = frozenset(
    {EntryKind.CONFIGURATION, EntryKind.ROSTER, EntryKind.EJECT, EntryKind.TRUST}
)
"""Kinds that operators make; no machine owns them, and they have no lifetime."""
SITE_WIDE = BY_OPERATORS | {EntryKind.GATEWAY, EntryKind.USAGE}
"""Kinds that concern all clusters of a site; all others stay within the cluster of their owner."""


class EntryKey(NamedTuple):
    """The key of an entry: its owner and kind."""

    machine: Name
    kind: EntryKind


class DigestRow(msgspec.Struct, frozen=True, array_like=True):
    """An entry in a digest: its key and version."""

    machine: Name
    kind: EntryKind
    incarnation: Count
    version: Count
    mark: Count
    """The first 32 bits of the body's SHA-256, or of an operator's document's digest."""

    @property
    def key(self) -> EntryKey:
        """The key of the entry."""
        return EntryKey(self.machine, self.kind)

    @property
    def order(self) -> tuple[int, int, int]:
        """Of two entries of one key the larger stays: the later, else the smaller hash."""
        return self.incarnation, self.version, -self.mark


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An entry that an owner published."""

    machine: Name
    """The owner, or whom an operator's document is about; `CLUSTER` where that is all of it."""
    kind: EntryKind
    cluster: Name
    """Whom it concerns: the owner's cluster, or by the name of the site all of them."""
    incarnation: Count
    """Of the owner, raised by it when it finds that it forgot what it had published."""
    version: Count
    """Raised by the owner with everything that it publishes."""
    lifetime_s: Span
    """How long after its publication it is valid, by the clock of the holder."""
    body: Document
    signature: KeyBytes
    """The owner's. Of an operator's document, which has its signature inside, the digest that
    decides between two of one number: the smaller stays."""

    @property
    def key(self) -> EntryKey:
        """The key of the entry."""
        return EntryKey(self.machine, self.kind)

    @property
    def row(self) -> DigestRow:
        """The row of the entry in a digest."""
        decides = self.signature if self.kind in BY_OPERATORS else sha256(self.body).digest()
        mark = int.from_bytes(decides[:4], "big")
        return DigestRow(self.machine, self.kind, self.incarnation, self.version, mark)


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """An entry in a message, with its age."""

    entry: Entry
    age_s: Span
    """Time since its publication, as measured by those who passed it on."""


class Signer(Protocol):
    """Signs with this machine's key."""

    def sign(self, content: bytes) -> bytes:
        """Return the signature of `content`."""
        ...


class Verifier(Protocol):
    """Verifies signatures by the known keys of others."""

    def introduce(self, machine: str, certificate: bytes) -> str:
        """Learn a machine's key from its certificate; return why that failed, or nothing."""
        ...

    def knows(self, machine: str) -> bool:
        """Return whether the machine's key is known."""
        ...

    def verify(self, machine: str, content: bytes, signature: bytes) -> bool:
        """Return whether the machine signed `content`."""
        ...

    def is_ejected(self, machine: str) -> bool:
        """Return whether the machine is ejected; other machines may not know it yet."""
        ...

    def check_document(self, document: Entry) -> str:
        """Why this is no document that an operator signed, or nothing.

        Its kind, whom it is about, its number (the entry's version) and the digest in place of
        the signature are to be those of the document in the body.
        """
        ...


OUTLIVES_ITS_MACHINE = SITE_WIDE | {EntryKind.MEMBER, EntryKind.CERTIFICATE, EntryKind.LEDGER}
"""Kinds that are kept when their machine has left."""

_CONTEXT = b"iriai entry 1\0"
"""Before everything that is signed: no signature for another purpose can be taken for one of an
entry."""
_encode = msgspec.msgpack.Encoder().encode


def signed_content(entry: Entry) -> bytes:
    """Return the signed bytes of an entry: all but its signature."""
    return _CONTEXT + _encode(astuple(entry)[:-1])

"""Entries of the directory: what machines publish of themselves, signed by them (spec 006)."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from iriai.model.bounds import Count, Document, KeyBytes, Name, Span

CLUSTER = ""
"""The owner of what is about no machine: configuration, roster, and the trust in all others."""


class EntryKind(StrEnum):
    """The subject of an entry."""

    MEMBER = "member"
    """That the machine is there, or leaves; a `members.Member`."""
    CERTIFICATE = "certificate"
    """What the machine's signatures are verified with; signed by the authority within."""
    AD = "ad"
    """What the machine offers, a ClassAd."""
    LEDGER = "ledger"
    """What the machine did for each account; a `ledger.LedgerBatch`."""
    CONFIGURATION = "configuration"
    """The cluster's configuration, by an operator."""
    ROSTER = "roster"
    """Who the operators are, and with whom the authority's key lies; the authority signed it."""
    EJECT = "eject"
    """That nobody talks to the machine any more, by an operator."""
    TRUST = "trust"
    """For which users the machine's home speaks on others, by an operator."""


BY_OPERATORS = frozenset(
    {EntryKind.CONFIGURATION, EntryKind.ROSTER, EntryKind.EJECT, EntryKind.TRUST}
)
"""Kinds that operators make; no machine owns them, and they have no lifetime."""


class EntryKey(NamedTuple):
    """The key of an entry: its owner and kind."""

    machine: Name
    kind: EntryKind


class Stamp(NamedTuple):
    """The version of an entry; the larger is the later."""

    incarnation: Count
    """Of the owner, raised by it when it finds that it forgot what it had published."""
    version: Count
    """Raised by the owner with everything that it publishes."""


class DigestRow(msgspec.Struct, frozen=True, array_like=True):
    """One entry in a digest: which it is, and how late."""

    machine: Name
    kind: EntryKind
    incarnation: Count
    version: Count
    mark: Count
    """The first 32 bits of the body's SHA-256, or of an operator's document's digest."""

    @property
    def key(self) -> EntryKey:
        """Whose and what it is."""
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
    """The authority that the owner belongs to."""
    incarnation: Count
    version: Count
    lifetime_s: Span
    """How long after it was published it counts, by the clock of whoever holds it."""
    body: Document
    signature: KeyBytes
    """The owner's. Of an operator's document, which has its signature inside, the digest that
    decides between two of one number: the smaller stays."""

    @property
    def key(self) -> EntryKey:
        """Whose and what it is."""
        return EntryKey(self.machine, self.kind)

    @property
    def stamp(self) -> Stamp:
        """How late it is."""
        return Stamp(self.incarnation, self.version)

    @property
    def row(self) -> DigestRow:
        """As a digest names it."""
        decides = self.signature if self.kind in BY_OPERATORS else sha256(self.body).digest()
        mark = int.from_bytes(decides[:4], "big")
        return DigestRow(self.machine, self.kind, self.incarnation, self.version, mark)


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """An entry on its way."""

    entry: Entry
    age_s: Span
    """Since it was published, as far as those who carried it know."""


class Signer(Protocol):
    """This machine's key."""

    def sign(self, content: bytes) -> bytes:
        """The signature of `content`."""
        ...


class Verifier(Protocol):
    """Verifies signatures by the known keys of others."""

    def introduce(self, machine: str, certificate: bytes) -> str:
        """Learn a machine's key from its certificate; says why not, or nothing."""
        ...

    def knows(self, machine: str) -> bool:
        """Whether the machine's key was learned."""
        ...

    def verify(self, machine: str, content: bytes, signature: bytes) -> bool:
        """Whether the machine signed `content`."""
        ...

    def is_ejected(self, machine: str) -> bool:
        """Whether operators threw the machine out: not all may have heard of it yet."""
        ...

    def check_document(self, document: Entry) -> str:
        """Why this is no document that an operator signed, or nothing.

        Its kind, whom it is about, its number (the entry's version) and the digest in place of
        the signature are to be those of the document in the body.
        """
        ...


OUTLIVES_ITS_MACHINE = BY_OPERATORS | {EntryKind.MEMBER, EntryKind.CERTIFICATE, EntryKind.LEDGER}
"""Kinds that are kept when their machine has left: that it did, and what it counted."""

_CONTEXT = b"iriai entry 1\0"
"""Before everything that is signed: no signature for another purpose can be taken for one of an
entry."""
_encode = msgspec.msgpack.Encoder().encode


def signed_content(entry: Entry) -> bytes:
    """What the signature of an entry is of: all the rest of it."""
    return _CONTEXT + _encode(
        (
            entry.machine,
            entry.kind.value,
            entry.cluster,
            entry.incarnation,
            entry.version,
            entry.lifetime_s,
            entry.body,
        )
    )
